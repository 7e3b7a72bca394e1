"""Contracts by name: ``references.softmax`` and so on, each one short definition with its domain."""

from references.activations import gelu, silu, softcap, swiglu
from references.attention import attention, attention_lse
from references.clustering import kmeans_assign
from references.collectives import (
    all_gather,
    all_reduce,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
    weighted_mean,
)
from references.losses import cross_entropy
from references.matmul import addmm, bmm, linear, matmul
from references.moments import cumsum, var, vector_norm
from references.norms import add_rms_norm, group_norm, layer_norm, rms_norm
from references.optimizers import adam, sgd, unscale
from references.order import argmax, argmin
from references.quantization import dequantize, quantize_fp8, quantize_fp8_block, quantize_int8
from references.reductions import amax, amin, mean, prod, sum
from references.rope import rope
from references.softmax import log_softmax, logsumexp, softmax

__all__ = [
    "adam",
    "add_rms_norm",
    "addmm",
    "all_gather",
    "all_reduce",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "attention",
    "attention_lse",
    "bmm",
    "broadcast",
    "cross_entropy",
    "cumsum",
    "dequantize",
    "gather",
    "gelu",
    "group_norm",
    "kmeans_assign",
    "layer_norm",
    "linear",
    "log_softmax",
    "logsumexp",
    "matmul",
    "mean",
    "prod",
    "quantize_fp8",
    "quantize_fp8_block",
    "quantize_int8",
    "reduce",
    "reduce_scatter",
    "rms_norm",
    "rope",
    "scatter",
    "sgd",
    "silu",
    "softcap",
    "softmax",
    "sum",
    "swiglu",
    "unscale",
    "var",
    "vector_norm",
    "weighted_mean",
]
