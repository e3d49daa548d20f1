"""How large the page is and how fast it opens: the demo, and 500 tasks x 10 repeats.

.venv/bin/python benchmarks/page.py     after `make test`, which installs what it needs
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
TWOARM = Path(sys.executable).parent / "twoarm"
ROUNDS = 5


def main() -> int:
    browser_path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if browser_path is None:
        sys.exit("no chromium; see tools/chromium.sh")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        runs = Path(folder) / "runs.jsonl"
        with runs.open("wb") as file:
            script = [sys.executable, str(HERE / "generate.py"), "10000", "500"]
            subprocess.run(script, stdout=file, check=True)
        pages = {"demo": ["demo"], "500 tasks x 10 repeats": ["score", str(runs)]}
        browser = driver.chromium.launch(
            executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"]
        )
        print("| page | MB | seconds to open, best of 5 |")
        print("| --- | ---: | ---: |")
        for name, arguments in pages.items():
            path = Path(folder) / "report.html"
            with path.open("wb") as file:
                subprocess.run([TWOARM, *arguments, "--format", "html"], stdout=file, check=True)
            page = browser.new_page()
            taken = []
            for _ in range(ROUNDS):
                before = time.perf_counter()
                page.goto(path.as_uri())
                page.wait_for_selector("body[data-ready]")
                taken.append(time.perf_counter() - before)
            page.close()
            print(f"| {name} | {path.stat().st_size / 1e6:.2f} | {min(taken):.2f} |")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
