# shellcheck shell=bash
# Sourced by suites that run the browser of an npm package. A machine that lacks the libraries of a browser gets those
# that come with it, which the package unpacks where it finds itself in one cloud.

# unpack_browser unpacks it before the suites start, so that no two do it at once.
unpack_browser() {
  browser_path || return 1
  # A suite within another one finds it in use, with its libraries.
  if lacks_libraries && [[ ! -d ${TMPDIR:-/tmp}/al2023 ]]; then
    rm "${TMPDIR:-/tmp}/chromium" # nothing is unpacked next to one that is there
    AWS_LAMBDA_JS_RUNTIME=nodejs22.x browser_path
  fi
}

# use_browser makes what is started from here on find the libraries, and the fonts, which the package expects in /tmp.
use_browser() {
  local tmp=${TMPDIR:-/tmp}
  if lacks_libraries; then
    export AWS_LAMBDA_JS_RUNTIME=nodejs22.x FONTCONFIG_FILE=$tmp/fonts.conf
    echo "<fontconfig><dir>$tmp/fonts</dir><cachedir>$tmp/fonts-cache</cachedir></fontconfig>" >"$FONTCONFIG_FILE"
  fi
}

browser_path() {
  (cd tools/conformance && node --input-type=module -e '
    const { default: chromium } = await import("./chromium.mjs");
    await chromium.executablePath();')
}

# lacks_libraries succeeds where the system has not all of them.
lacks_libraries() { [[ $(ldd "${TMPDIR:-/tmp}/chromium" 2>/dev/null) == *"not found"* ]]; }
