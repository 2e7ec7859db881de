"""The offline reader: finds the answer to a question in what a memory recalled, by rules and without a model.

`answers` puts it together. `parsed_question` parses the question, `sentences` and `values` the passages; `matching`
scores sentences, `updates` chooses among them by time; `totals`, `times` and `tastes` answer what no single sentence
can.

The rules know English, no benchmark and no question. Their numbers were set by hand and tried on the shipped sample and
on long conversations of two people (docs/results.md). It can be misled, and is meant to be: it believes any text it is
shown.
"""
