package gateways

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/internal/test/must"
)

// luaModules is where Debian has the modules of libnginx-mod-http-lua.
const luaModules = "/usr/lib/nginx/modules/"

// kong is the script of deploy/gateways/kong in nginx with its module for Lua, which Kong is made of, between functions
// that stand for Kong's.
var kong = &program{
	name: "Kong's script", folder: "kong", binary: "nginx", files: []string{"kong.yml"}, network: "tcp4",
	edits: []string{
		`_format_version: "3.0"`, "listen: ADDR\ncert: CERT\nkey: KEY", "http://127.0.0.1:8080", "APP",
		"http://127.0.0.1:9180", "http://LIMITER",
	},
	patient:  []string{"local timeout = 300 ", "local timeout = 60000 ", "set_timeouts(100,", "set_timeouts(60000,"},
	policies: []string{"closed", "open"}, away: `local away = "%s"`,
	around: kongInNginx,
	args:   func(file string) []string { return []string{"-c", file, "-e", "stderr"} },
}

// kongInNginx writes the functions of the plugin pre-function to files, and returns a configuration of nginx that runs them.
func kongInNginx(config, dir string) string {
	var file struct {
		Listen, Cert, Key string
		Services          []struct{ URL string }
		Plugins           []struct {
			Config map[string][]string
		}
	}
	if err := yaml.Unmarshal([]byte(config), &file); err != nil {
		panic(err)
	}
	for phase, functions := range file.Plugins[0].Config {
		if err := os.WriteFile(filepath.Join(dir, phase+".lua"), []byte(functions[0]), 0o600); err != nil {
			panic(err)
		}
	}
	lua, err := filepath.Abs("testdata/recipes/lua")
	if err != nil {
		panic(err)
	}
	return "load_module " + luaModules + "ndk_http_module.so; load_module " + luaModules + "ngx_http_lua_module.so; env WEBLIMIT_TOKEN;\n" +
		nginx.around(fmt.Sprintf(`
			lua_package_path ";;%[1]s/?.lua"; underscores_in_headers on;
			init_by_lua_block { dofile("%[1]s/pdk.lua"); pre_function("%[2]s") }
			server {
				listen %[3]s ssl http2; ssl_certificate %[4]s; ssl_certificate_key %[5]s;
				location / {
					access_by_lua_block { run("access") }
					header_filter_by_lua_block { run("header_filter") }
					proxy_pass http://%[6]s;
					proxy_set_header X-Forwarded-For $remote_addr;
				}
			}`, lua, dir, file.Listen, file.Cert, file.Key, file.Services[0].URL), dir)
}

// needLua skips the test without the module; where CI=true it fails.
func needLua(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(luaModules + "ngx_http_lua_module.so"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("needs libnginx-mod-http-lua: %v", err)
	}
}

// behindKong is the script in nginx as its clients see it.
type behindKong struct{ *setup }

func (f behindKong) request(t *testing.T, from, path string, header ...string) *answer {
	t.Helper()
	lines := ""
	for pair := range slices.Chunk(header, 2) {
		lines += pair[0] + ": " + pair[1] + "\r\n"
	}
	return f.send(t, from, "GET "+path+" HTTP/1.1\r\nHost: example.com\r\n"+lines+"\r\n")
}

func (*recipe) startKong(t *testing.T, limits, away string) (front, *limiter) {
	t.Helper()
	needLua(t)
	s := kong.start(t, limits, strings.TrimPrefix(away, "closed"))
	return behindKong{s}, s.limiter
}

// The script is asked about requests of every shape, over HTTP/1.1 and HTTP/2, as the gateways that run as a whole are.
func TestForgedRequestsToKong(t *testing.T) {
	t.Parallel()
	needLua(t)
	forge(t, kong.start(t, limits, ""))
}

// A limiter that is stopped, frozen and back again is noticed by the script.
func TestKongsLimiterAway(t *testing.T) {
	t.Parallel()
	needLua(t)
	s := kong.startAsIs(t, fast, "")
	s.decidesWithout(t, "closed", "stopped", s.limiter.stop)
	s.limiter.start(t)
	s.back(t)
	s.decidesWithout(t, "closed", "frozen", func() { s.limiter.freeze(t) })
	s.limiter.thaw(t)
	s.back(t)
}

// The limiter knows the request as Kong's client has sent it.
func TestKongsScriptPassesOnTheRequest(t *testing.T) {
	t.Parallel()
	needLua(t)
	s := kong.start(t, reads, "")
	for _, request := range []string{
		"DELETE /method HTTP/1.1\r\nHost: example.com\r\n\r\n", "GET /path?x=1 HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"GET /query?x=%26&page=1 HTTP/1.1\r\nHost: example.com\r\n\r\n", "GET /host HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"GET /header HTTP/1.1\r\nHost: example.com\r\nX-Team: a\r\n\r\n", "GET /key HTTP/1.1\r\nHost: example.com\r\nAuthorization: Bearer a-key-of-a-client\r\n\r\n",
		"GET /cookie HTTP/1.1\r\nHost: example.com\r\nCookie: x=y; team=a\r\n\r\n", "GET /address HTTP/1.1\r\nHost: example.com\r\n\r\n",
	} {
		must.Equal(t, request, s.send(t, s.attacker, request).StatusCode, 200)
		must.Equal(t, request+", again", s.send(t, s.attacker, request).StatusCode, 429)
	}
	must.Equal(t, "a header twice", s.send(t, s.attacker, "GET /header HTTP/1.1\r\nHost: example.com\r\nX-Team: c\r\nX-Team: d\r\n\r\n").StatusCode, 400)
	must.Equal(t, "too many lines", s.send(t, s.attacker, "GET /path HTTP/1.1\r\nHost: example.com\r\n"+strings.Repeat("X-A: b\r\n", 120)+"\r\n").StatusCode, 431)
}
