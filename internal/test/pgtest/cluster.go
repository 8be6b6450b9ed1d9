package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// hba lets the superuser in without a password, and all others with theirs.
const hba = `local all postgres trust
local all all scram-sha-256
local replication postgres trust
`

// template is a data directory made by initdb once, which each server gets a copy of:
// initdb takes some seconds.
var template = sync.OnceValues(func() (dir string, err error) {
	dir, err = tempDir()
	if err != nil {
		return "", err
	}
	templates.Store(dir)
	found, err := programs()
	if err != nil {
		return "", err
	}
	data := filepath.Join(dir, "data")
	err = run(found.initdb, "-D", data, "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "--auth=trust")
	if err != nil {
		return "", err
	}
	return data, os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(hba), 0o600)
})

// tempDir makes a directory that belongs to the user of servers. It is in /tmp, because the
// system's directory for temporary files can be one that only the user of the tests may
// enter, and one whose path is too long for a socket.
func tempDir() (string, error) {
	dir, err := os.MkdirTemp("/tmp", "pg")
	if err != nil {
		return "", err
	}
	return dir, give(dir)
}

// copyTemplate makes a data directory in dir.
func copyTemplate(dir string) (data string, err error) {
	from, err := template()
	if err != nil {
		return "", err
	}
	data = filepath.Join(dir, "data")
	return data, run("cp", "-Rp", from, data)
}

// run runs a program as the user of servers, in a directory that this user may enter.
func run(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = "/"
	if err := asServer(cmd); err != nil {
		return err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}
