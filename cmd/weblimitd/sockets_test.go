//go:build unix

package main_test

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/listen"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
)

// The group of a gateway may ask, and not operate: it does not get the admin socket, too.
func TestCallersAreNoOperatorsByTheirGroup(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("a file can be given to another group by root alone")
	}
	dir := child.Dir(t)
	data, admin := filepath.Join(dir, "data.sock"), filepath.Join(dir, "admin.sock")
	for name, test := range map[string]struct {
		args []string
		want uint32
	}{
		"none for operators": {nil, uint32(os.Getgid())},
		"their own":          {[]string{"--admin-socket-group", "2"}, 2},
	} {
		in := start(t, nil, append(test.args, "--listen", "unix:"+data, "--admin-listen", "unix:"+admin, "--socket-group", "1")...)
		for path, want := range map[string]uint32{data: 1, admin: test.want} {
			info := must.Get(os.Stat(path))(t)
			if got := info.Sys().(*syscall.Stat_t).Gid; got != want || info.Mode().Perm() != 0o660 {
				t.Errorf("%s: %s has the group %d and the mode %v, want %d", name, path, got, info.Mode(), want)
			}
		}
		in.stop(t)
	}
}

// Everybody on the machine can connect to a socket without a file.
func TestASocketWithoutAFileLetsEverybodyIn(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("there are such sockets on Linux alone")
	}
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "unix", "@"+t.TempDir()))(t)
	defer func() { _ = l.Close() }()
	check.Equal(t, "its reach", listen.ReachOf(l), listen.Loopback)
	f := must.Get(l.(*net.UnixListener).File())(t)
	passed, err := net.FileListener(f) // as from systemd
	_ = f.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = passed.Close() }()
	check.Equal(t, "its reach, passed on", listen.ReachOf(passed), listen.Loopback)
}
