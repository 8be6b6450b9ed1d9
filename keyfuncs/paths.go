package keyfuncs

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
)

// Paths holds for requests with one of these paths, where no router knows the route, as in a
// gateway or in a service that is asked for others:
//
//	Paths("/healthz", "/api/*")
//
// A path stands for itself, and one that ends in "/*" for everything below it, so that "/api/*"
// holds for "/api/users" and not for "/api". Within an application use [Routes].
//
// One resource has endlessly many spellings: "/login/", "//login", "/LOGIN", "/%6cogin" and
// "/x/../login" reach the handler of "/login" behind some server or other. For such a request
// the answer is [Unknown]. A limit with this condition then applies, and an exemption does not.
//
// Err reports no paths, one that does not begin with a slash, one that is not in its plain
// spelling, a "*" elsewhere, and "/*": as a bypass it would exempt everybody.
//
// # Security
//
// Safe for limits and as an exemption, unless the service behind chooses its handler by something
// other than the path, such as X-Original-URL, or rewrites the path in a way of its own.
func Paths(paths ...string) Condition {
	if len(paths) == 0 {
		return Condition{err: errors.New("weblimit: keyfuncs.Paths: no paths")}
	}
	var set pathSet
	for _, written := range paths {
		stem, below := strings.CutSuffix(written, "/*")
		switch {
		case written == "/*":
			return Condition{err: errors.New(`weblimit: keyfuncs.Paths: "/*" is every path; leave the condition out`)}
		case stem != "/" && !plainPath(stem) || strings.Contains(stem, "*"):
			return Condition{err: fmt.Errorf("weblimit: keyfuncs.Paths: %.80q is not a plain path, want one such as \"/healthz\" or \"/api/*\"", written)}
		}
		set = append(set, pathPattern{stem, strings.ToLower(stem), below})
	}
	return Condition{ask: set.ask}
}

// plainPath reports whether a path is spelled as it is normally, without a slash at the end.
func plainPath(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.ContainsAny(p, "%;\\?#") && path.Clean(p) == p &&
		!strings.ContainsFunc(p, func(c rune) bool { return c <= ' ' || c > '~' })
}

type pathPattern struct {
	stem, lower string
	below       bool
}

// matches reports whether the pattern, with this stem, covers p.
func (p *pathPattern) matches(stem, path string) bool {
	if !p.below {
		return path == stem
	}
	return len(path) > len(stem)+1 && path[len(stem)] == '/' && path[:len(stem)] == stem
}

type pathSet []pathPattern

func (s pathSet) ask(r Request) Answer {
	received := r.Path()
	if plainPath(received) {
		for i := range s {
			if s[i].matches(s[i].stem, received) {
				return Yes
			}
		}
	}
	normal := normalPath(received)
	for i := range s {
		if s[i].matches(s[i].lower, normal) || s[i].below && strings.HasSuffix(received, "/") && normal == s[i].lower {
			return Unknown
		}
	}
	return No
}

// normalPath undoes what servers, proxies and routers may undo in a path. Two paths that one of
// them may take for the same have the same one.
func normalPath(p string) string {
	for range 3 { // a proxy and the server behind it may each decode once
		decoded, err := url.PathUnescape(p)
		if err != nil || decoded == p {
			break
		}
		p = decoded
	}
	p = strings.ReplaceAll(p, `\`, "/")
	if strings.Contains(p, ";") {
		segments := strings.Split(p, "/")
		for i, s := range segments {
			segments[i], _, _ = strings.Cut(s, ";")
		}
		p = strings.Join(segments, "/")
	}
	p, _, _ = strings.Cut(p, "?")
	p, _, _ = strings.Cut(p, "#")
	p, _, _ = strings.Cut(p, "\x00") // the end, for servers in C
	return strings.ToLower(path.Clean("/" + strings.TrimSpace(p)))
}
