package keyfuncs

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strings"
	"sync"
	"unsafe"
)

// BasicAuthUser limits by the user name of HTTP Basic authentication (RFC 7617). The key is
// "basic:alice"; the password is no part of it. It is hashed if the name is long or odd (see the
// package comment).
//
// The key is [Missing] if there is no Authorization header with Basic credentials, or if they
// are malformed or name no user; a request that is denied for it gets a Basic challenge. It is [Ambiguous] if there is more than one line of
// Authorization.
//
// # Security
//
// Safe behind the check of the password.
//
// In front of it the client writes the name. That suits a limit on attempts per account: each
// account has its bucket, whoever tries. But anybody can use up that bucket and so lock the user
// out, and a client has a fresh bucket for each name that it makes up. Combine it with a limit by
// [ClientIP]. If your authentication folds the case of names, make the key by the Key function
// of your adapter.
func BasicAuthUser() Func {
	p := newEncoder(kindBasic)
	return Func{
		kind: kindBasic,
		lack: &lack{what: "user name", challenge: `Basic realm="restricted", charset="UTF-8"`},
		read: func(dst []byte, r Request) ([]byte, Presence) {
			value, presence := readHeader(r, "Authorization")
			if presence != Present {
				return dst, presence
			}
			d := basicDecoders.Get().(*basicDecoder)
			defer basicDecoders.Put(d)
			return d.appendUser(dst, p, value)
		},
		repeated: func(r Request) string {
			if _, presence := readHeader(r, "Authorization"); presence == Ambiguous {
				return "Authorization header"
			}
			return ""
		},
	}
}

// basicDecoder decodes credentials of any length piece by piece, without allocating.
type basicDecoder struct {
	piece [768]byte
	name  [maxName + 1]byte // the user name, if it is short
	long  hash.Hash         // of the user name
	sum   [sha256.Size]byte
}

var basicDecoders = sync.Pool{New: func() any { return &basicDecoder{long: sha256.New()} }}

// appendUser appends the key of the user in Basic credentials. Credentials that net/http does
// not accept are Missing.
func (d *basicDecoder) appendUser(dst []byte, p encoder, authorization string) ([]byte, Presence) {
	const scheme = "Basic "
	if len(authorization) < len(scheme) || !strings.EqualFold(authorization[:len(scheme)], scheme) {
		return dst, Missing
	}
	rest := authorization[len(scheme):]
	if len(rest)%4 != 0 || strings.IndexByte(rest[:max(len(rest)-2, 0)], '=') >= 0 || strings.ContainsAny(rest, "\r\n") {
		return dst, Missing
	}
	d.long.Reset()
	length, ended := 0, false
	for rest != "" { // to the end, since all of it must be valid
		part := rest[:min(len(rest), len(d.piece)/3*4)]
		rest = rest[len(part):]
		n, err := base64.StdEncoding.Decode(d.piece[:], bytesOf(part))
		if err != nil {
			return dst, Missing
		}
		if ended {
			continue
		}
		user := d.piece[:n]
		if i := bytes.IndexByte(user, ':'); i >= 0 {
			user, ended = user[:i], true
		}
		if length < len(d.name) {
			copy(d.name[length:], user)
		}
		length += len(user)
		d.long.Write(user)
	}
	switch {
	case !ended || length == 0:
		return dst, Missing
	case length < len(d.name):
		return p.append(dst, unsafe.String(&d.name[0], length)) //nolint:gosec // G103: read at once
	}
	return appendSum(dst, p.kind, d.long.Sum(d.sum[:0])), Present
}
