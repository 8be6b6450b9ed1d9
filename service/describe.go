package service

import (
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"

	"github.com/weblimit/weblimit/service/internal/described"
	"github.com/weblimit/weblimit/service/internal/strict"
)

// Bounds of what a check says beside its request, in bytes.
const (
	maxPolicy    = 128
	maxOperation = 128
)

var requestFields = []string{"method", "path", "route", "client_ip", "headers", "query", "cookies", "params", "values"}

// readRequest reads the description of a request.
func readRequest(r *strict.Reader) (*described.Request, error) {
	to := &described.Request{MethodText: http.MethodGet, PathText: "/"}
	cookies := false // whether the caller has named them, if only to say that there are none
	err := r.Object(func(name string) (err error) {
		switch name {
		case "method":
			to.MethodText, err = readPlain(r, described.MaxMethod)
		case "path":
			if to.PathText, err = readPlain(r, described.MaxPath); err == nil && strings.ContainsAny(to.PathText, "?#") {
				return r.Errorf("a path without ? and #, want the query in query")
			}
		case "route":
			to.RouteText, err = readPlain(r, described.MaxRoute)
			to.RouteKnown = true
		case "client_ip":
			to.PeerAddr, err = readAddress(r)
		case "headers":
			to.Headers, err = readFields(r, canonicalHeader)
		case "query":
			to.QueryArgs, err = readFields(r, anyName)
		case "cookies":
			cookies = true
			to.Cookies, err = readFields(r, anyName)
		case "params":
			to.Params, err = readParams(r)
		case "values":
			to.Values, err = readValues(r)
		default:
			err = r.Unknown(requestFields...)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if !cookies {
		addCookies(to)
	}
	return to, nil
}

// addCookies reads the cookies from the Cookie header, as an application does.
func addCookies(r *described.Request) {
	for i := 0; ; i++ {
		line, ok := r.Headers.At("Cookie", i)
		if !ok {
			return
		}
		parsed := http.Request{Header: http.Header{"Cookie": {line}}}
		for _, c := range parsed.Cookies() {
			r.Cookies = append(r.Cookies, described.Field{Name: c.Name, Value: c.Value})
		}
	}
}

// readPlain reads text without control characters.
func readPlain(r *strict.Reader, most int) (string, error) {
	text, err := r.Text(most)
	if err == nil && !described.IsPlain(text) {
		err = r.Errorf("text with a control character")
	}
	return text, err
}

func readAddress(r *strict.Reader) (netip.Addr, error) {
	text, err := r.Text(64)
	if err != nil {
		return netip.Addr{}, err
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, r.Errorf("not an IP address, want one without a port, such as 192.0.2.1 or 2001:db8::1")
	}
	return addr.Unmap(), nil // as adapters see an IPv4 client that reaches an IPv6 socket
}

// readFields reads an object whose values are texts or lists of texts.
func readFields(r *strict.Reader, nameOf func(string) (string, bool)) (described.Fields, error) {
	var all described.Fields
	err := r.Object(func(written string) error {
		name, ok := nameOf(written)
		if !ok {
			return r.Errorf("not a name that a header can have")
		}
		// The order of an object's fields means nothing, but that of a header's lines does.
		if _, before := all.At(name, 0); before {
			return r.Errorf("the header is there twice, in two spellings; list its lines under one name")
		}
		add := func(most int) error {
			value, err := r.Text(most)
			if err == nil {
				all = append(all, described.Field{Name: name, Value: value})
			}
			if len(all) > described.MaxFields {
				return r.Errorf("more than %d values", described.MaxFields)
			}
			return err
		}
		if r.Kind() == '[' {
			return r.Array(described.MaxLines, func(int) error { return add(described.MaxValue) })
		}
		return add(described.MaxValue)
	})
	return all, err
}

func anyName(name string) (string, bool) { return name, name != "" }

// canonicalHeader returns the canonical spelling of a header's name, or false for what no header
// can be called.
func canonicalHeader(name string) (string, bool) {
	if !described.IsToken(name) {
		return "", false
	}
	return textproto.CanonicalMIMEHeaderKey(name), true
}

func readParams(r *strict.Reader) (map[string]string, error) {
	all := make(map[string]string)
	err := r.Object(func(name string) error {
		value, err := r.Text(described.MaxValue)
		all[name] = value
		return err
	})
	return all, err
}

// readValues reads what middleware would have stored: texts, whole numbers and truth values.
func readValues(r *strict.Reader) (map[string]any, error) {
	all := make(map[string]any)
	err := r.Object(func(name string) error {
		var value any
		var err error
		switch r.Kind() {
		case '"':
			value, err = r.Text(described.MaxValue)
		case '0':
			value, err = r.Int(-1<<53, 1<<53)
		case 't', 'f':
			value, err = r.Bool()
		default:
			return r.Errorf("want text, a whole number, true or false")
		}
		all[name] = value
		return err
	})
	return all, err
}
