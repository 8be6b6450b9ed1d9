package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A unit is what is built at once: packages of one module, with or without the race detector.
type unit struct {
	dir      string // of the module, from the root of the repository
	race     bool
	tests    string // -test.run; "" for all tests
	packages []listed
}

// name is how a person calls the unit.
func (u unit) name() string {
	if u.race {
		return u.dir
	}
	return u.dir + ", without the race detector"
}

// newest is the module that runs the tests of other modules' packages, with the newest releases of all that they
// stand on: those that it imports.
const newest = "internal/newest"

// drives reports whether all that the race detector is for in the packages of the unit are the programs that they drive.
func (u unit) drives() bool { return !u.race && u.tests == "" && u.dir != newest }

// tables are packages whose tests compare texts, tables and lists of files, and start no goroutines that
// share anything: the race detector would find nothing in them. Those that only send requests to other programs
// build these with the race detector nevertheless: see race.InPrograms. Those of several regions start some fifty processes, which the race
// detector would have take ten minutes. The goroutines of what billing, fair, proxies and regions put together meet in the tests of
// quota, core, the adapters and package regions, which have it.
var tables = regexp.MustCompile(`/(internal/test/(api|costs|documents|fairsim|figure|image|plots|prefetchsim|regionsim|release|users)|suites/(billing|charts|envoy|fair|gateways|models|page|policyschema|prometheus|proxies|regions))$`)

// measured are tests that count allocations and bytes, simulate millions of keys or requests, read files of megabytes, or are about
// the binary that users run. Under the race detector they skip or do less, so they run without it, too: those of newest's guests
// there, with all others.
const measured = `Alloc|TenMillion|BytesPerKey|LogsKeep|Outcomes|ARollOut|TimeGrows|TooMuchIs|TooManyValues|IdleConnections|BinaryIsStatic`

// sequences are tests of the main module that compare a store of one process with a model, most of them without the race detector:
// each random sequence has one caller.
const sequences = `^TestMemory(IsDivided)?$`

var measuredTest = regexp.MustCompile(`(?m)^func Test\w*(` + measured + `)\w*\(`)

// plan returns what is to be run.
func plan(ctx context.Context, only *regexp.Regexp) ([]unit, error) {
	dirs, err := modules(ctx)
	if err != nil {
		return nil, err
	}
	guests, err := guests(ctx)
	if err != nil {
		return nil, err
	}
	perModule := make([][]unit, len(dirs))
	errs := make([]error, len(dirs))
	var wg sync.WaitGroup
	for i, dir := range dirs {
		wg.Go(func() { perModule[i], errs[i] = planModule(ctx, dir, only, guests) })
	}
	wg.Wait()
	return slices.Concat(perModule...), errors.Join(errs...)
}

// modules returns the folders of all modules.
func modules(ctx context.Context) (dirs []string, err error) {
	out, err := exec.CommandContext(ctx, "scripts/modules").Output()
	if err != nil {
		return nil, fmt.Errorf("scripts/modules, which is to be found from the root of the repository: %w", err)
	}
	for _, dir := range strings.Fields(string(out)) {
		dirs = append(dirs, path.Clean(dir))
	}
	return dirs, nil
}

// listed is what go list says of a package.
type listed struct {
	Dir, ImportPath                    string
	Imports, TestGoFiles, XTestGoFiles []string
}

// testFiles returns the paths of the files of tests.
func (p listed) testFiles() []string {
	files := slices.Concat(p.TestGoFiles, p.XTestGoFiles)
	for i, f := range files {
		files[i] = filepath.Join(p.Dir, f)
	}
	return files
}

// measures reports whether tests of the package are to be run without the race detector, too.
func (p listed) measures() (bool, error) {
	for _, file := range p.testFiles() {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		if measuredTest.Match(text) {
			return true, nil
		}
	}
	return false, nil
}

func planModule(ctx context.Context, dir string, only *regexp.Regexp, guests []listed) ([]unit, error) {
	if dir == newest {
		// Races are looked for with the releases of users: what there is to be found with others is in the tests of
		// bench/migrate and in make newest.
		guests = slices.DeleteFunc(slices.Clone(guests), func(p listed) bool { return len(p.testFiles()) == 0 || !only.MatchString(p.ImportPath) })
		if len(guests) == 0 {
			return nil, nil
		}
		return []unit{{dir: dir, packages: guests}}, nil
	}
	packages, err := list(ctx, dir)
	if err != nil {
		return nil, err
	}
	racing, plain, again := unit{dir: dir, race: true}, unit{dir: dir}, unit{dir: dir, tests: measured}
	if dir == "." {
		again.tests += "|" + sequences
	}
	for _, p := range packages {
		switch {
		case len(p.testFiles()) == 0 || !only.MatchString(p.ImportPath):
		case tables.MatchString(p.ImportPath):
			plain.packages = append(plain.packages, p)
		default:
			racing.packages = append(racing.packages, p)
			if slices.ContainsFunc(guests, func(g listed) bool { return g.ImportPath == p.ImportPath }) {
				continue
			}
			measures, err := p.measures()
			if err != nil {
				return nil, err
			}
			if measures {
				again.packages = append(again.packages, p)
			}
		}
	}
	return slices.DeleteFunc([]unit{racing, plain, again}, func(u unit) bool { return len(u.packages) == 0 }), nil
}

// guests returns the packages of this repository that newest imports.
func guests(ctx context.Context) (packages []listed, err error) {
	packages, err = list(ctx, newest)
	if err != nil {
		return nil, err
	}
	var own []string
	for _, p := range packages {
		for _, path := range p.Imports {
			if strings.HasPrefix(path, module+"/") {
				own = append(own, path)
			}
		}
	}
	return list(ctx, newest, own...)
}

// list returns packages as a module sees them, by default its own.
func list(ctx context.Context, dir string, paths ...string) (packages []listed, err error) {
	if len(paths) == 0 {
		paths = []string{"./..."}
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json=Dir,ImportPath,Imports,TestGoFiles,XTestGoFiles"}, paths...)...)
	cmd.Dir = dir
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: go list: %w\n%s", dir, err, &failure)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: go list: %w", dir, err)
		}
		packages = append(packages, p)
	}
}
