#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Pretends to be a program that launched kernels: pretend.sh KERNEL:LAUNCHES:REPLACED:REFUSAL...
# When it is verified, it writes the report that the library would write. "-" begins the report of another process.
[ -n "$COISSUE_VERIFY" ] || exit 0
process=1
begin() {
    report=$(printf '%s' "${COISSUE_VERIFY%\%p}" | sed 's/%%/%/g')$process
    printf '{"functions":[' >"$report"
    comma=
}
end() {
    printf '\n]}\n' >>"$report"
}
begin
for kernel; do
    if [ "$kernel" = - ]; then
        end
        process=$((process + 1))
        begin
        continue
    fi
    IFS=: read -r name launches replaced refusal <<WORDS
$kernel
WORDS
    printf '%s\n {"kernel":"%s","launches":%s,"replaced":%s,"refusal":"%s","because":"text of %s"}' "$comma" "$name" \
        "$launches" "$replaced" "$refusal" "$refusal" >>"$report"
    comma=,
done
end
