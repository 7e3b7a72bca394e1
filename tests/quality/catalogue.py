"""Where each entry of the list of real bugs is met: by subjects here, by mutants of kernels, or nowhere and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.subjects import load
from quality.declare import Expected, Subject

KERNELS = Path(__file__).parents[2] / "kernels"

MUTANTS: dict[str, tuple[str, ...]] = {
    "B02": ("sum_tree:sum_tree@float16-accumulator", "sum_two_stage:sum_two_stage@float16-accumulator"),
    "B06": ("var:var@divided-twice", "var:var@correction-ignored", "var_welford:var_welford@merge-weight"),
    "B08": ("amax:amax@nan-by-comparison", "all_reduce:all_reduce@nan-lost-in-max"),
    "B10": ("argmin:argmin@pad-zero", "amin:amin@pad-zero"),
    "B14": ("cumsum:cumsum@no-carry", "cumsum:cumsum@carry-of-block"),
    "B16": ("sum_atomic:sum_atomic@not-initialised",),
    "B18": (
        "sum_tree:sum_tree@empty-axis-unwritten",
        "mean:mean@empty-axis-zero",
        "var:var@empty-axis-unwritten",
    ),
    "B22": ("var_welford:var_welford@old-mean-twice",),
    "B24": ("softmax:softmax@pad-zero", "log_softmax:log_softmax@maximum-of-the-tile"),
    "B26": ("logsumexp:logsumexp@plus-inf-nan", "logsumexp:logsumexp@all-minus-inf-nan"),
    "B30": ("layer_norm:layer_norm@padding-deviates", "group_norm:group_norm@padding-deviates"),
    "B32": ("layer_norm:layer_norm@one-pass-variance", "var:var@one-pass"),
    "B40": (
        "layer_norm:layer_norm@unit-stride-of-output-pass",
        "rms_norm:rms_norm@unit-stride-of-output-pass",
    ),
    "B42": ("rms_norm:rms_norm@squares-in-input-format", "vector_norm:vector_norm@squares-in-input-format"),
    "B48": ("var_welford:var_welford@plain-average-of-means", "weighted_mean:weighted_mean@mean-of-means"),
    "B50": ("matmul:matmul@k-unmasked-in-a", "matmul:matmul@k-unmasked-in-b", "addmm:addmm@k-unmasked-in-b"),
    "B52": ("matmul_quantized:matmul_quantized@stored-through-int8",),
    "B54": ("addmm:addmm@beta-times-c-always",),
    "B56": ("matmul:matmul@tf32", "kmeans_assign:kmeans_assign@tf32"),
    "B58": ("attention:attention@largest-finite-mask", "attention:attention@finite-mask"),
    "B60": ("attention:attention@guard-kept-as-maximum", "attention_lse:attention_lse@guard-kept-as-maximum"),
    "B62": ("attention:attention@tail-of-v-unmasked", "attention_split:attention_split@tail-of-v-unmasked"),
    "B64": ("attention:attention@window-includes-one-more", "attention:attention@causal-strict"),
    "B66": ("attention:attention@heads-interleaved", "attention:attention@dv-masked-by-d"),
    "B68": (
        "attention_lse:attention_lse@lse-of-another-head",
        "attention_split:attention_split@lse-of-another-part",
    ),
    "B74": ("attention:attention@first-16-of-d",),
    "B78": ("adam:adam@decay-after-the-step",),
    "B80": ("adam:adam_float32_state@correction-complemented", "adam:adam_float32_state@rsqrt"),
    "B82": ("adam:adam_float32_state@step-in-bfloat16", "adam:adam_float32_state@beta-in-bfloat16"),
    "B86": (
        "sgd:sgd@dampening-at-step-1",
        "sgd:sgd@dampening-ignored",
        "sgd:sgd@dampening-by-momentum",
        "sgd:sgd@nesterov-ignored",
        "sgd:sgd@nesterov-without-gradient",
    ),
    "B88": ("weighted_mean:weighted_mean@mean-of-means", "weighted_mean:weighted_mean@at-least-one-each"),
    "B92": ("all_reduce:all_reduce@operations-in-another-order", "reduce:reduce@always-a-sum"),
    "B94": ("all_reduce:all_reduce@float16-sum",),
    "B96": ("all_gather:all_gather@padded-to-the-longest", "all_gather:all_gather@equal-shards-assumed"),
    "B98": ("reduce:reduce@in-place", "reduce:reduce@result-for-everyone"),
    "B108": ("rope:rope@interleaved-ignored", "rope:rope@halves-written"),
    "B110": ("rope:rope@minus-sine",),
    "B118": ("cross_entropy:cross_entropy@lse-minus-target",),
    "B120": (
        "quantize_fp8_block:quantize_fp8_block@lane-unmasked",
        "quantize_int8:quantize_int8@maximum-over-padding",
    ),
    "B122": ("quantize_fp8:quantize_fp8@through-float16", "quantize_fp8:quantize_fp8@through-bfloat16"),
    "B124": (
        "quantize_int8:quantize_int8@no-clamp",
        "quantize_int8:quantize_int8@clamped-before-rounding",
        "quantize_int8:quantize_int8@half-away-from-zero",
    ),
    "B126": ("quantize_fp8:quantize_fp8@scale-of-zeros", "quantize_int8:quantize_int8@scale-of-zeros"),
    "B128": ("quantize_fp8:quantize_fp8@reciprocal", "quantize_int8:quantize_int8@reciprocal"),
    "B130": ("unscale:unscale@not-divided", "unscale:unscale@multiplies"),
    "B132": ("unscale:unscale@looked-at-before-the-division",),
    "B134": ("softmax:softmax@contiguous-rows", "matmul:matmul@b-contiguous"),
    "U02": ("matmul:matmul@last-group-as-the-others",),
}
"""Mutants of kernels that make the mistake of an entry."""

ELSEWHERE: dict[str, str] = {
    "B34": "a gradient",
    "B36": "a gradient",
    "B46": "a gradient of dropout",
    "B72": "a gradient",
    "B102": "a gradient",
    "B112": "a gradient",
    "B116": "a gradient",
    "C20": "a mistake of a test, not of a kernel",
    "U04": "a gradient",
    "U08": "a gradient",
}
"""Entries that concern no contract of a forward computation."""


def mutants() -> Iterator[Subject]:
    """The catalogued mutants of kernels as subjects, held to what their kernels declare."""
    for bug, specs in MUTANTS.items():
        for spec in specs:
            file, _, name = spec.partition(":")
            target = load(f"{KERNELS / file}.py:{name}")
            declared = target.declaration
            assert declared is not None
            expected = Expected(
                declared.contract,
                bug=bug,
                claims=declared.claims,
                domain=declared.domain,
                formats=declared.dtypes,
            )
            yield Subject(target.function, expected, target)
