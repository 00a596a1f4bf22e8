"""A comparison for other programs: CSV, Parquet, JSON.

In:  a `Comparison`.   Out: a row for each n-gram that the releases have in common. Numbers of n-grams that noise hides
(`tested` is false) are empty.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from bayesgram.errors import UsageError
from bayesgram.files.writing import write_file_atomically
from bayesgram.released.comparison import Comparison

CSV, PARQUET, JSON = SUFFIXES = (".csv", ".parquet", ".json")


def comparison_table(found: Comparison) -> pa.Table:
    """Every n-gram: its θ in each release, between which two it changed most clearly, by how much, how surely."""
    names = np.array(found.names, object)
    columns: dict[str, Any] = {"ngram": found.ngrams, "order": found.orders}
    columns |= {f"share {name}": share for name, share in zip(found.names, found.shares, strict=True)}
    columns |= {"from": names[found.pairs[0]], "to": names[found.pairs[1]]}
    numbers = {
        "ratio": np.exp(found.log_ratios),
        "ratio_low": found.lows,
        "ratio_high": found.highs,
        "log_ratio": found.log_ratios,
        "standard_deviation": found.log_deviations,
        "z": found.z,
        "p_value": found.p_values,
        "fdr": found.fdrs,
    }
    columns |= {name: pa.array(values, from_pandas=True) for name, values in numbers.items()}  # nan is null
    tested = np.isfinite(found.p_values)
    columns |= {"tested": tested, "changed": tested & (np.nan_to_num(found.fdrs, nan=1.0) <= found.fdr)}
    return pa.table(columns)


def comparison_json(found: Comparison) -> dict[str, Any]:
    """What was compared, and what changed, the surest first."""
    table = comparison_table(found).take(pa.array(found.discovered))
    return {
        "releases": found.names,
        "fdr": found.fdr,
        "in_common": len(found.ngrams),
        "tested": found.tested,
        "drift": {str(order): drift for order, drift in found.drifts.items()},
        "notes": found.notes,
        "changes": [
            {**{name: value for name, value in row.items() if name not in {"tested", "changed"}}, "described": told}
            for row, told in zip(table.to_pylist(), (change.described for change in found.changes), strict=True)
        ],
    }


def check_suffix(path: Path) -> None:
    """Refuse a name that does not say what to write."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"output={path}: give a name that ends with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.")


def save_comparison(found: Comparison, path: Path, *, force: bool = False) -> None:
    """Write what the name says: all n-grams, the surest changes first; as JSON what changed."""
    check_suffix(path)
    table = comparison_table(found)
    table = table.take(pa.array(np.argsort(np.nan_to_num(found.p_values, nan=2.0), kind="stable")))
    with write_file_atomically(path, force=force) as aside:
        if path.suffix.lower() == CSV:
            pacsv.write_csv(table, aside)
        elif path.suffix.lower() == PARQUET:
            pq.write_table(table, aside, compression="zstd")
        else:
            text = json.dumps(comparison_json(found), indent=2, ensure_ascii=False, allow_nan=False)
            aside.write_text(text + "\n", encoding="utf-8")
