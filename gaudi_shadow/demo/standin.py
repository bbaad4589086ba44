"""Write a stand-in release: packages named vllm, vllm_gaudi and habana_frameworks, small and in our own words.

Their two target functions have the faults of the real ones, and their own text; `workshop` says how the hook comes to
know them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

GROUPING_NAMES = {"v0.26.0": "group_mm_kwargs_by_modality", "v0.30.0": "group_and_batch_mm_kwargs"}
RELEASE_FILES = Path(__file__).with_name("release")


def write_release(folder: Path, release: str, *, metadata: bool = True) -> Path:
    """Write one stand-in release into `folder`, which is then what a site-packages folder would be.

    Args:
        folder: made if it does not exist; files of the same names are overwritten.
        release: "v0.26.0" or "v0.30.0": they differ, as the real ones do, in the name of vLLM's grouping function.
        metadata: whether to write a dist-info that names the version.

    Returns:
        `folder`.
    """
    shutil.copytree(RELEASE_FILES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("vllm/multimodal/utils.py", "vllm_gaudi/v1/worker/hpu_model_runner.py"):
        path = folder / name
        path.write_text(path.read_text("utf-8").replace("GROUPING_NAME", GROUPING_NAMES[release]), "utf-8")
    if metadata:
        version = release.removeprefix("v")
        info = folder / f"vllm_gaudi-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm_gaudi\nVersion: {version}\n", "utf-8")
    return folder
