package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"

	"github.com/weblimit/weblimit/internal/wholefile"
	"github.com/weblimit/weblimit/policy"
)

// publish checks a file of Envoy as instances with these settings do, and publishes it where they read it. The
// command weblimit, which publishes policies, does not know such files.
func (o *options) publish(ctx context.Context, name string, out io.Writer) error {
	if err := o.validateEnvoy(); err != nil {
		return err
	}
	config, err := o.envoySettings()
	if err != nil {
		return err
	}
	to, err := o.openBackend(ctx)
	if err != nil {
		return err
	}
	defer to.close()
	source, err := to.published("envoy-config", string(o.envoyConfig))
	if err != nil {
		return err
	}
	archive, ok := source.(policy.Archive)
	if !ok {
		return errors.New("publish needs --envoy-config redis:KEY or postgres:NAME, where instances read the file; those of a folder change in the folder, and weblimit policy publish is for policies")
	}
	found, err := wholefile.Read(ctx, name, policy.MaxBytes)
	if err != nil {
		return err
	}
	file := policy.File{Name: filepath.Base(name), Text: found} // instances need not know this machine
	release, err := policy.Publish(ctx, archive, file, policy.Publication{By: publisher(), Validate: config.Validate})
	if err != nil {
		return fmt.Errorf("nothing was published: %w", err)
	}
	_, err = fmt.Fprintf(out, "%s: %s\n", o.envoyConfig, release)
	return err
}

// publisher is who runs the command, for the log of releases.
func publisher() string {
	host, _ := os.Hostname()
	if who, err := user.Current(); err == nil {
		return who.Username + "@" + host
	}
	return "@" + host
}
