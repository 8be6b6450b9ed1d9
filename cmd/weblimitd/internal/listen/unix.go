package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// maxPath is the longest path of a unix socket: that of Linux less what the temporary name needs.
const maxPath = 90

// openUnix listens on a unix socket. The socket is made under a private name and moved to its place when
// its mode and group are right, so nobody can open it before. A socket that nobody listens on any more
// is replaced; anything else at the path is an error.
func openUnix(ctx context.Context, path string, options SocketOptions) (net.Listener, error) {
	if err := replaceable(ctx, path); err != nil {
		return nil, err
	}
	group := -1
	if options.Group != "" {
		var err error
		if group, err = groupID(options.Group); err != nil {
			return nil, err
		}
	}
	private, err := os.MkdirTemp(filepath.Dir(path), ".w")
	if err != nil {
		return nil, err
	}
	defer os.Remove(private)
	temporary := filepath.Join(private, "s")
	l, err := new(net.ListenConfig).Listen(ctx, "unix", temporary)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err = os.Chmod(temporary, options.Mode); err == nil && group >= 0 {
		err = os.Chown(temporary, -1, group)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Lstat(temporary)
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary)
		_ = l.Close()
		return nil, err
	}
	return &unixListener{Listener: l, path: path, info: info}, nil
}

// replaceable returns an error if something is at the path that is in use, or is no socket.
func replaceable(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there, and is no socket", path)
	}
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("%s: another process listens there", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("whether another process listens there: %w", err)
	}
	return nil
}

func groupID(group string) (int, error) {
	g, err := user.LookupGroup(group)
	if err != nil {
		if g, err = user.LookupGroupId(group); err != nil {
			return 0, fmt.Errorf("there is no group %q", group)
		}
	}
	return strconv.Atoi(g.Gid)
}

// unixListener removes its socket when it is closed, unless another process has replaced it.
type unixListener struct {
	net.Listener
	path string
	info fs.FileInfo
	once sync.Once
}

func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

func (l *unixListener) Close() error {
	l.once.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.info) {
			_ = os.Remove(l.path)
		}
	})
	return l.Listener.Close()
}
