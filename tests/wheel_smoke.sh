#!/usr/bin/env bash
# Builds the wheel and uses it from another directory, where neither the checkout nor the editable install is seen:
# a base interpreter that finds the wheel first and the locked dependencies after it (no .pth file is read there).
# So that nothing is compiled twice, it is built where the editable install was, op library and all, and that is then
# put where the distribution fedplug-tensorflow has it. `make wheels` builds the two wheels as they are published.
# Usage: wheel_smoke.sh UV VENV
set -euo pipefail
uv=$(command -v "$1") venv=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$uv" build --quiet --wheel --no-build-isolation --python "$venv/bin/python" --out-dir "$work" \
  -C 'build-dir=build/{wheel_tag}' -C cmake.define.FEDPLUG_WITH_TF=ON -C cmake.define.FEDPLUG_WITH_CUDA=AUTO .
"$uv" pip install --quiet --python "$venv/bin/python" --no-deps --target "$work/site" "$work"/fedplug-*.whl
mkdir "$work/site/fedplug_tensorflow"
mv "$work"/site/fedplug/ops/{_fedplug_ops.so,build_info.json} "$work/site/fedplug_tensorflow"
base=$("$venv/bin/python" -c 'import sys; print(sys._base_executable)')
export FEDPLUG_PLUGINS=""  # the plugins of the checkout are installed editable, which nobody sees here
export PYTHONPATH="$work/site:$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
cd "$work"
"$base" -c 'import fedplug, pathlib; assert pathlib.Path(fedplug.__file__).is_relative_to(pathlib.Path("site").resolve())'
"$base" -m fedplug doctor
"$base" -m fedplug examples list
"$base" -m fedplug examples copy digits . && test -s digits.toml
"$base" -m fedplug plugins new smoke && test -s fedplug-smoke/fedplug_smoke/encoder.py
mkdir run && echo '{"run":"a","round":1,"uplink_bytes":1,"downlink_bytes":1,"clients":1,"payloads":1}' > run/metrics.jsonl
"$base" -m fedplug report run && test -s run/report.html
echo "the wheel works from another directory"
