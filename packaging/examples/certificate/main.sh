#!/bin/sh
# Renews a TLS certificate before it expires: a key and a request, the authority's signature, a check that they belong
# together, both files in place, a reload. If the reload fails, the old pair is put back.
#
# Shows: a probe for an effect of two files, compensation with exported variables, a step that waits for somebody else's
# machine and goes on though the agent dies.
#
#   bide run certificate --input '{"name": "www.example.org", "certificate": "/etc/ssl/www.crt",
#       "key": "/etc/ssl/www.key", "sign": "acme-sign \"$1\"", "reload": "systemctl reload nginx"}'
#
# Input: name         whom it is for
#        certificate  where it goes; the one that is there now tells whether it is time
#        key          where its private key goes
#        sign         a shell command: gets the request's file as $1, prints the certificate. It may take an hour
#        reload       a shell command that makes the server read them (optional)
#        days         renew when it is valid for less (30)
set -eu

name=$(bide input name)
certificate=$(bide input certificate)
key=$(bide input key)
sign=$(bide input sign)
reload=$(bide input reload --default true)
days=$(bide input days --default 30)
export certificate key

if [ "$(bide step due --effect pure -- due "$certificate" "$days")" = no ]; then
  bide result renewed:=false
  exit 0
fi

# The key is made once: asked again after a crash, the same request goes out under the same key.
bide step request --effect idempotent -- make-request "$name" new
bide step sign --effect idempotent --retries 5 --backoff 1m -- sign new.csr new.crt "$sign"
bide step check --effect pure -- belongs new.crt new.key "$name"

bide step install --probe 'installed new.crt "$certificate" new.key "$key"' \
  --export certificate --export key --compensate 'put-back "$certificate" "$key" old' \
  -- install-pair new "$certificate" "$key" old
bide step reload --effect idempotent --retries 2 --backoff 2s -- sh -c "$reload"

valid=$(bide step read --effect pure -- valid-until "$certificate")
bide result renewed:=true valid_until="$valid"
