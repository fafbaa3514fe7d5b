"""`feedback query`: how results are printed; what may be asked is tested with the engine."""

import csv
import io
import json


def test_table(loaded) -> None:
    result = loaded("query", "select source, count(*) as n from raw_feedback group by all")
    assert result.exit_code == 0
    assert "shop_reviews" in result.stdout
    assert result.stderr == ""


def test_json_is_a_list_of_rows(loaded) -> None:
    result = loaded("query", "select partition_date, sum(records) n from landed_files group by all", "--format", "json")
    assert json.loads(result.stdout) == [{"partition_date": "2026-09-01", "n": 3}]


def test_csv(loaded) -> None:
    result = loaded("query", "select text, flags from raw_feedback order by rating desc", "--format", "csv")
    assert list(csv.reader(io.StringIO(result.stdout))) == [
        ["text", "flags"],
        ["Fast delivery, thank you", "[]"],
        ["The chair arrived broken and nobody answers", "[]"],
    ]


def test_tables_exist_before_the_first_run(feedback) -> None:
    result = feedback("query", "select count(*) as n from normalized_feedback", "--format", "json")
    assert json.loads(result.stdout) == [{"n": 0}]
    assert "raw_feedback" in feedback("query", "show tables").stdout


def test_markup_in_user_text_is_text(feedback) -> None:
    assert "[red]x[/red] [/]" in feedback("query", "select '[red]x[/red] [/]' as a").stdout


def test_long_results_are_cut_in_the_table_only(feedback) -> None:
    table = feedback("query", "select * from range(500) t(n)")
    assert "300 more rows" in table.stderr
    assert len(json.loads(feedback("query", "from range(500)", "--format", "json").stdout)) == 500


def test_numbers_that_json_does_not_know_become_null(feedback) -> None:
    result = feedback("query", "select 'nan'::double as a, 'inf'::double as b", "--format", "json")
    assert json.loads(result.stdout) == [{"a": None, "b": None}]


def test_errors_are_one_line(feedback, one_line) -> None:
    one_line(feedback("query", "selec 1"), "syntax error")
    one_line(feedback("query", "select nope from raw_feedback"), "nope")
    one_line(feedback("query", "delete from raw_feedback"), "DELETE", "SELECT")
