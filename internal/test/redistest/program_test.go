package redistest

import "testing"

func TestVersionsOfRedisAndValkeyAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]release{
		"Redis server v=5.0.14 sha=00000000:0 malloc=libc bits=64 build=3b2c":         {5, 0},
		"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae": {7, 0},
		"Server v=7.2.7 sha=00000000:0 malloc=libc bits=64 build=1":                   {7, 2},
		"Valkey server v=8.0.1 sha=00000000:0 malloc=libc bits=64 build=1":            {8, 0},
		"Redis server v=255.255.255 sha=4f8cdc2a:0 malloc=libc bits=64 build=1":       {255, 255},
	} {
		if got, err := parseVersion(text); got != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "redis-server", "v=seven", "nginx version: nginx/1.22"} {
		if got, err := parseVersion(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestOlderIsOlder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		server       release
		major, minor int
		older        bool
	}{
		{release{5, 0}, 6, 0, true},
		{release{6, 0}, 6, 0, false},
		{release{6, 0}, 6, 2, true},
		{release{7, 0}, 6, 2, false},
		{release{7, 0}, 7, 2, true},
		{release{255, 255}, 8, 0, false},
	} {
		if got := tt.server.before(tt.major, tt.minor); got != tt.older {
			t.Errorf("%v before %d.%d: %v", tt.server, tt.major, tt.minor, got)
		}
	}
}
