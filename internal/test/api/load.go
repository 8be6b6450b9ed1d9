package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Load returns the packages of the repository in the directory root that other modules import, by
// their paths within it: "core/store". These are the importable ones of all modules, and internal
// ones that the repository's other modules use: users may have another version of those modules.
// Types are read from the compiler's export data, which takes a second; type-checking the
// frameworks from source takes many.
func Load(root string) (map[string]*types.Package, error) {
	modules, err := modules(root)
	if err != nil {
		return nil, err
	}
	loaded := make([]map[string]*types.Package, len(modules))
	errs := make([]error, len(modules))
	var all sync.WaitGroup
	for i, module := range modules {
		all.Go(func() {
			folders, err := importable(filepath.Join(root, module))
			if module == "." {
				folders = append(folders, shared...)
			}
			if err == nil {
				loaded[i], err = load(filepath.Join(root, module), folders)
			}
			errs[i] = err
		})
	}
	all.Wait()
	packages := map[string]*types.Package{}
	for i, module := range modules {
		for path, pkg := range loaded[i] {
			packages[filepath.ToSlash(filepath.Join(module, path))] = pkg
		}
	}
	return packages, errors.Join(errs...)
}

// shared are internal packages of the main module that adapters, stores, policies, the service and books in other modules import.
var shared = []string{"./internal/breaker", "./internal/compose", "./internal/flat", "./internal/stdhttp", "./internal/fiberhttp"}

// modules returns the directories of the modules that users can require: the main one, and those
// directly below it, below core, metrics, policy, service or service/envoy, but for comparisons and examples.
func modules(root string) ([]string, error) {
	found := []string{"."}
	for _, pattern := range []string{"*", "core/*", "metrics/*", "policy/*", "service/*", "service/*/*"} {
		files, err := filepath.Glob(filepath.Join(root, pattern, "go.mod"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			module, err := filepath.Rel(root, filepath.Dir(file))
			if err != nil {
				return nil, err
			}
			if module != "bench" && module != "examples" {
				found = append(found, module)
			}
		}
	}
	return found, nil
}

// raceFlag returns the flag of go list with which nothing is compiled once more: tests have compiled all packages with the
// race detector, which needs cgo.
var raceFlag = sync.OnceValues(func() (string, error) {
	cgo, err := exec.Command("go", "env", "CGO_ENABLED").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	return fmt.Sprintf("-race=%v", string(cgo) == "1\n"), nil
})

// load returns the packages in folders of the module in the directory root, by their paths within
// the module.
func load(root string, folders []string) (map[string]*types.Package, error) {
	race, err := raceFlag()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", append([]string{"list", race, "-export", "-json=ImportPath,Name,Export,Module"}, folders...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", cmd, err)
	}
	exports, paths := map[string]string{}, map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var listed struct {
			ImportPath, Name, Export string
			Module                   struct{ Path string }
		}
		if err := decoder.Decode(&listed); err != nil {
			return nil, err
		}
		if listed.Name != "main" {
			exports[listed.ImportPath] = listed.Export
			within := strings.TrimPrefix(strings.TrimPrefix(listed.ImportPath, listed.Module.Path), "/")
			paths[within] = listed.ImportPath
		}
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	packages := map[string]*types.Package{}
	for within, path := range paths {
		if packages[within], err = imports.Import(path); err != nil {
			return nil, err
		}
	}
	return packages, nil
}

// importable returns the folders of the module whose packages users can import, as
// patterns for the go command: "./core/store". Programs may be among them.
//
// It looks at every file, because `go test` caches a result for as long as the files and
// folders that the test looked at stay the same, and does not see what a command reads.
func importable(root string) (folders []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		if entry.IsDir() {
			name := entry.Name()
			_, noModule := os.Stat(filepath.Join(path, "go.mod"))
			if noModule == nil || name == "internal" || name == "testdata" || name[0] == '.' {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		if _, err := os.Stat(path); err != nil {
			return err
		}
		within, err := filepath.Rel(root, filepath.Dir(path))
		if folder := "./" + filepath.ToSlash(within); !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
		return err
	})
	return folders, err
}
