//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"sync"
	"syscall"
)

// account is the user that servers run as, or nil for the user of the tests.
var account = sync.OnceValues(func() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil //nolint:nilnil // no other user, and no error
	}
	var errs []error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: true}, nil
	}
	return nil, errors.Join(errs...)
})

// asServer makes cmd run as the user of servers.
func asServer(cmd *exec.Cmd) error {
	as, err := account()
	if err != nil || as == nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	return nil
}

// give makes dir the property of the user of servers.
func give(dir string) error {
	as, err := account()
	if err != nil || as == nil {
		return err
	}
	return os.Chown(dir, int(as.Uid), int(as.Gid))
}
