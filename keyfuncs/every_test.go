package keyfuncs_test

import (
	"encoding/base64"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/clientkeys"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// everyFunc has a Func of each constructor. A new constructor needs a row: the tests below then
// check what every key promises.
var everyFunc = []struct {
	constructor string
	kind        string
	make        func(value string) keyfuncs.Func // reads value of carrying(value)
	text        string                           // what Encode writes in place of value; "-" if Encode does not make the key
}{
	{"APIKey", "apikey", func(string) keyfuncs.Func { return keyfuncs.APIKey() }, ""},
	{"APIKey", "apikey", func(string) keyfuncs.Func { return keyfuncs.APIKey("?key") }, ""},
	{"BasicAuthUser", "basic", func(string) keyfuncs.Func { return keyfuncs.BasicAuthUser() }, ""},
	{"ClientIP", "ip", func(string) keyfuncs.Func { return keyfuncs.ClientIP() }, "192.0.2.7"},
	{"Cookie", "cookie.Sid", func(string) keyfuncs.Func { return keyfuncs.Cookie("Sid") }, ""},
	{"Custom", "plan", func(value string) keyfuncs.Func { return keyfuncs.Custom("plan", returns(value)) }, ""},
	{"Everyone", "all", func(string) keyfuncs.Func { return keyfuncs.Everyone() }, "-"},
	{"First", "first(user,ip)", func(string) keyfuncs.Func { return keyfuncs.First(keyfuncs.User("userID"), keyfuncs.ClientIP()) }, "-"},
	{"Header", "header.x-tenant", func(string) keyfuncs.Func { return keyfuncs.Header("X-Tenant") }, ""},
	{"Host", "host", func(string) keyfuncs.Func { return keyfuncs.Host() }, ""},
	{"Join", "join(ip,route)", func(string) keyfuncs.Func { return keyfuncs.Join(keyfuncs.ClientIP(), keyfuncs.Route()) }, "-"},
	{"Lookup", "country", func(value string) keyfuncs.Func {
		return keyfuncs.Lookup("country", func(netip.Addr) (string, bool) { return value, true })
	}, ""},
	{"Method", "method", func(string) keyfuncs.Func { return keyfuncs.Method() }, ""},
	{"Param", "param.id", func(string) keyfuncs.Func { return keyfuncs.Param("id") }, ""},
	{"Query", "query.q", func(string) keyfuncs.Func { return keyfuncs.Query("q") }, ""},
	{"Route", "route", func(string) keyfuncs.Func { return keyfuncs.Route() }, ""},
	{"Tenant", "tenant", func(string) keyfuncs.Func { return keyfuncs.Tenant("tenantID") }, ""},
	{"User", "user", func(string) keyfuncs.Func { return keyfuncs.User("userID") }, ""},
}

// carrying returns a request that has a value wherever a Func of everyFunc reads one.
func carrying(value string) *request {
	return &request{
		method: value, path: "/" + value, route: value, peer: "192.0.2.7",
		headers: http.Header{"X-Tenant": {value}, "X-Api-Key": {value}, "Host": {value}, "Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(value+":secret:1"))}},
		cookies: map[string][]string{"Sid": {value}},
		query:   map[string][]string{"key": {value}, "q": {value}},
		params:  map[string]string{"id": value},
		values:  map[any]any{"userID": value, "tenantID": value},
	}
}

// values are what clients send, at worst.
var values = map[string]string{
	"plain": "s3cret-42", "braces and bars": "a|b{c}#d", "not ASCII": "é", "64 bytes": strings.Repeat("x", 64),
	"65 bytes": strings.Repeat("x", 65), "a megabyte": strings.Repeat("x", 1<<20),
}

func TestEveryConstructorIsTested(t *testing.T) {
	t.Parallel()
	tested, exported := map[string]bool{}, map[string]bool{}
	for _, e := range everyFunc {
		tested[e.constructor] = true
	}
	files := must.Get(filepath.Glob("*.go"))(t)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))(t)
		for _, d := range parsed.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.IsExported() && returnsFunc(d) {
				exported[d.Name.Name] = true
				if !tested[d.Name.Name] {
					t.Errorf("%s has no row in everyFunc", d.Name.Name)
				}
			}
		}
	}
	for name := range tested {
		if !exported[name] {
			t.Errorf("everyFunc has a row for %s, which is no constructor", name)
		}
	}
}

func returnsFunc(d *ast.FuncDecl) bool {
	if d.Type.Results == nil || len(d.Type.Results.List) != 1 {
		return false
	}
	result, ok := d.Type.Results.List[0].Type.(*ast.Ident)
	return ok && result.Name == "Func"
}

// Trap 33: a megabyte makes a bounded key.
func TestEveryKeyIsStorableAndAsEncodeWritesIt(t *testing.T) {
	t.Parallel()
	for _, e := range everyFunc {
		t.Run(e.constructor, func(t *testing.T) {
			t.Parallel()
			for name, value := range values {
				f, r := e.make(value), carrying(value)
				check.Equal(t, "Kind", f.Kind(), e.kind)
				key, p := f.Key(r)
				if p != keyfuncs.Present {
					t.Errorf("%s: the key is %v", name, p)
					continue
				}
				wantStorable(t, key)
				if !clientkeys.Match(e.kind, key) {
					t.Errorf("%s: %q is no key of the kind %q, by which tools tell keys that a limit counts", name, key, e.kind)
				}
				switch e.text {
				case "":
					wantKey(t, f, r, keyfuncs.Encode(e.kind, value))
				case "-":
					wantKey(t, f, r, key)
				default:
					wantKey(t, f, r, keyfuncs.Encode(e.kind, e.text))
				}
			}
		})
	}
}
