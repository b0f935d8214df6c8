#!/bin/sh
# SPDX-License-Identifier: MIT
# Install tenure and the compat commands for this user: the same as ./bootstrap install.
set -eu
exec "$(dirname "$0")/bootstrap" install "$@"
