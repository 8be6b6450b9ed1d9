package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// listed is a package, as go list describes it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	Imports         []string
	ImportMap       map[string]string // of packages that the standard library has copies of
	Standard        bool
	Module          struct{ GoVersion string }
}

// list returns the packages of a module and what they are made of, each after what it imports.
func list(module, goos, goarch string) (packages []listed, err error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,Imports,ImportMap,Standard,Module", "./...")
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &complaint)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p listed
		if err := decoder.Decode(&p); err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	return packages, nil
}
