#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes what compose.yaml needs and the repository does not have: a password of the database, the
# model's key as a file, and .env with the settings that follow from them. What is there stays.
# Usage: GEMINI_API_KEY=… deploy/compose/setup.sh [FOLDER]   (default: secrets, beside this file; needs root)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/secrets}
umask 077

if [ "$(id -u)" -ne 0 ]; then
    echo "setup.sh: the secrets get the users of the containers as owners, which takes root: sudo --preserve-env=GEMINI_API_KEY $0" >&2
    exit 1
fi
mkdir -p "$folder"
chmod 755 "$folder" # what is in it has owners of its own

# write NAME UID: from the input; only that user, and root, can read it
write() {
    cat >"$folder/$1.new"
    chown "$2:$2" "$folder/$1.new"
    chmod 400 "$folder/$1.new"
    mv "$folder/$1.new" "$folder/$1"
}
if [ ! -e "$folder/postgres_password" ]; then
    password=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
    printf '%s\n' "$password" | write postgres_password 999
    printf '*:*:*:crisol:%s\n' "$password" | write postgres_passfile 64902
fi
if [ -n "${GEMINI_API_KEY:-}" ] || [ ! -e "$folder/model_key" ]; then
    printf '%s' "${GEMINI_API_KEY:-}" | write model_key 64902
fi
if [ ! -e "$here/.env" ] && [ -s "$folder/model_key" ]; then
    echo "CRISOL_MODEL_KEY_FILE=/run/secrets/model_key" >"$here/.env"
    chmod 644 "$here/.env" # it names a file, no secret
    echo "setup.sh: wrote $here/.env"
fi
[ -s "$folder/model_key" ] || echo "setup.sh: no GEMINI_API_KEY: programs can be executed, but no model is asked"
echo "setup.sh: secrets are in $folder"
