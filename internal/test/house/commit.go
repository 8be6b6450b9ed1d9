package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"testing/fstest"
)

// commit returns the files of a commit.
func commit(revision string) (fs.FS, error) {
	cmd := exec.Command("git", "archive", "--format=tar", "--end-of-options", revision)
	cmd.Stderr = os.Stderr
	archive, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git archive %s: %w", revision, err)
	}
	files := fstest.MapFS{}
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		} else if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}
		files[header.Name] = &fstest.MapFile{Data: content, Mode: 0o600}
	}
}
