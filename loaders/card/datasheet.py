"""What has to be said about the data and cannot be counted: one text each, for the card and for the metadata."""

from __future__ import annotations

import dataclasses

SUMMARY = (
    "GPU kernels in CUDA and Triton, made by automated search or written by a language model, each verified against a "
    "PyTorch reference and timed on an NVIDIA GPU: a dataset for forecasting how fast a kernel will run, and how sure "
    "one can be."
)
MOTIVATION = (
    "Measuring a kernel takes a GPU and time; a forecast takes neither. Search over kernels spends most of its budget "
    "on candidates that turn out slow, so the question is how fast a kernel will run and how sure one can be before it "
    "runs. The dataset makes forecasters comparable, and lets searches be replayed without a GPU."
)
COMPOSITION = (
    "failed kernels are kept with their status and error text, because whether a kernel works is a question as well. "
    "Lineage (run, step, parent, proposer, edit) is complete, and raw timing samples are included."
)
DISTRIBUTION = (
    "As a folder inside the kbench package and as a Hugging Face dataset of the same layout, under CC-BY-4.0. The logs "
    "it is assembled from lie in docs/evidence/runs of the source repository; the same logs give the same rows."
)
COLLECTION = (
    "Kernels come from recorded searches over problems with a PyTorch reference. Each kernel was compiled, "
    "verified on several seeds and workloads against the reference in higher precision, and timed on the device "
    "with a cold L2 cache, in rounds interleaved with the problem's anchor; raw samples, clocks, temperature and "
    "throttle reasons are kept."
)
MISSING = (
    "A figure that was not measured is null, never a sentinel; the status says why. Failures of the machine "
    "rather than of the kernel were tried again and are not rows."
)
PRECISION = (
    "An interval holds what repeats within a process and between processes differ in, not what machines "
    "do: two H200s lay 0.3 % apart in the median, and 0.5 % in copy bandwidth. Timed rows have a "
    "launch-overhead baseline (`ruler_us`); a row without one comes from an older method, whose intervals are too "
    "narrow for kernels under 20 µs. Raw samples (`samples_us`) are "
    "all calls that were taken, also those whose launch was not hidden, which `runtime_us` leaves "
    "out: where the two differ, trust the runtime. A kernel's `runtime_us` is the geometric mean of its "
    "measurements' over workloads. The data on precision lies in docs/evidence/harness of the source repository, and "
    "docs/harness.md says how each figure is taken."
)
PREPROCESSING = (
    "Splits are by problem and by near-duplicate cluster (sources equal after comments are stripped and chosen names "
    "and literals masked), so that no held-out kernel has a twin in train. From release 2 on they are by lineage: "
    "problems that share a template stay on one side, `test` lies far from training, and `test_near` holds single "
    "problems of lineages that training sees. Speedups are labelled with half-octave bins."
)
USE_CASES = (
    "Training and rating forecasters of kernel runtime, calibrated or selective; replaying kernel searches "
    "without a GPU; studying what makes kernels fast, slow or wrong."
)
BIASES = (
    "Problems, shapes and dtypes are a selection, weighted towards deep learning. Kernels are what the search "
    "methods and proposers wrote: they share templates and habits, and say little about kernels written by "
    "people. Those with a `model` were proposed by one language model, whose answers are not independent of each "
    "other. A GPU named `64 of 132 SMs` is a partition of the same GPU, a green context with its whole L2 and memory."
)
LIMITATIONS = (
    "Runtimes hold for the GPUs, drivers and compiler versions recorded in the environments config and for the "
    "workloads listed; they do not carry over to other hardware. Aggregated figures are geometric means over "
    "workloads. Times taken by plan before 17 November 2026 are too short in places: by half a microsecond where a "
    "call fills memory, and by more than 1 % for one in fourteen Triton kernels with over 48 KB of shared memory. Many "
    "timed calls were on a problem's adversarial inputs, which matters to kernels whose time depends on their data."
)
SOCIAL_IMPACT = (
    "Better forecasts of kernel speed save GPU time and energy in kernel search. The data holds no information "
    "about people."
)
PERSONAL = "No personal data: rows hold program text and timings, and no row is about a person."
MAINTENANCE = (
    "Versions are derived from the content: every change of a config changes its version and, except for `live`, from "
    "which no question is made, the fingerprint. Corrections are released as new versions."
)
LICENSE_NAME = "CC-BY-4.0"
LICENSE_URL = "https://creativecommons.org/licenses/by/4.0/legalcode"
CITATION = (
    "@misc{kbench, title = {kbench: a dataset and benchmark for forecasting GPU kernel runtimes}, author = {{The "
    "kbench authors}}, year = {2026}}"
)
EXECUTION = (
    "Sources are programs. Run them only in a sandbox; `kbench measure` runs each in a worker process it can end."
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """The texts of one corpus."""

    name: str
    title: str
    summary: str
    motivation: str
    composition: str
    distribution: str
    collection: str
    missing: str
    precision: str
    preprocessing: str
    use_cases: str
    biases: str
    limitations: str
    social_impact: str
    personal: str
    maintenance: str
    license_url: str
    citation: str | None
    creator: str
    generated_by: str | None = None
    """Who made the rows; None where the rows say it."""


OURS = Sheet(
    name="kbench", title="kbench", summary=SUMMARY, motivation=MOTIVATION, composition=COMPOSITION,
    distribution=DISTRIBUTION, collection=COLLECTION, missing=MISSING, precision=PRECISION, preprocessing=PREPROCESSING,
    use_cases=USE_CASES, biases=BIASES, limitations=LIMITATIONS, social_impact=SOCIAL_IMPACT, personal=PERSONAL,
    maintenance=MAINTENANCE, license_url=LICENSE_URL, citation=CITATION, creator="The kbench authors",
)  # fmt: skip
