package image_test

import (
	"os"
	"os/exec"
	"syscall"
)

// confine has a program of an image see nothing but the image, and run as nobody, if this process may do that.
func confine(cmd *exec.Cmd, root, path string) {
	if os.Getuid() != 0 {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	cmd.Path, cmd.Args[0], cmd.Dir = "/"+path, "/"+path, "/"
}
