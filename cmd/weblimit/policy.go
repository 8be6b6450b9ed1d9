package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/internal/wholefile"
	"github.com/weblimit/weblimit/policy"
)

// mostInput bounds what is read as a file.
const mostInput = 16 << 20

func (a *app) policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Check, compare, test and publish policy files",
		Long: `policy works on files of limits. publish, rollback, log, status and get ask the Redis or PostgreSQL that
a fleet follows; the others ask nobody.

Names that the application gives its functions, such as a plan, are taken as they are.
References to secrets are not read: --secrets reads them, too. "-" is standard input.`,
		Example: `  weblimit policy check limits.yaml
  git show main:limits.yaml | weblimit policy diff - limits.yaml
  weblimit policy test limits.yaml requests.yaml
  weblimit policy publish limits.yaml --to redis://redis.example.com:6379`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.policyCheckCommand(), a.policyFormatCommand(), a.policyDiffCommand(), a.policyTestCommand(), a.policySchemaCommand(),
		a.policyPublishCommand(), a.policyRollbackCommand(), a.policyLogCommand(), a.policyStatusCommand(), a.policyGetCommand())
	return c
}

func (a *app) policyCheckCommand() *cobra.Command {
	secrets := false
	c := &cobra.Command{
		Use:   "check FILE...",
		Short: "Say everything that is wrong with files",
		Long: `check says everything that is wrong with policy files, as file:line:column, and ends with 1 if
anything is.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			wrong := false
			for _, name := range args {
				file, err := a.readFile(name)
				if err != nil {
					return err
				}
				set, err := policy.Parse(file.Name, file.Text, policy.Options{AnyName: true, WithoutSecrets: !secrets})
				if err == nil {
					names := set.Names()
					a.text.Line(show.Plain, fmt.Sprintf("%s: version %s, policies %s", file.Name, set.Status().Version, strings.Join(names[:min(len(names), 10)], ", ")))
					continue
				}
				wrong = true
				if err := a.problems(err); err != nil {
					return err
				}
			}
			if wrong {
				return errors.New("wrong policy files")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&secrets, "secrets", false, "read the secrets that files refer to")
	return c
}

// problems prints what is wrong with a file, or returns another error.
func (a *app) problems(err error) error {
	var wrong *policy.Error
	if !errors.As(err, &wrong) {
		return err
	}
	for _, p := range wrong.Problems {
		a.text.Line(show.Plain, p.String())
	}
	if wrong.More > 0 {
		a.text.Line(show.Plain, fmt.Sprintf("and %d more", wrong.More))
	}
	return nil
}

func (a *app) policyFormatCommand() *cobra.Command {
	write, list := false, false
	c := &cobra.Command{
		Use:   "fmt FILE...",
		Short: "Print or write files in their usual form",
		Long: `fmt prints policy files in their usual form: two blanks for each level, and nothing at the ends of lines.
Comments and the order of fields stay. It never changes what a file says.`,
		Example: `  weblimit policy fmt -w limits.yaml
  weblimit policy fmt -l *.yaml       # in a pipeline: ends with 1 if it names any`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			different := false
			for _, name := range args {
				file, err := a.readFile(name)
				if err != nil {
					return err
				}
				made, err := policy.Format(file)
				if err != nil {
					return err
				}
				same := bytes.Equal(made, file.Text)
				switch {
				case list && !same:
					different = true
					a.text.Line(show.Plain, name)
				case list:
				case !write:
					if _, err := a.out.Write(made); err != nil {
						return err
					}
				case name == "-":
					return usagef("standard input can't be written")
				case !same:
					if err := wholefile.Replace(name, made); err != nil {
						return err
					}
				}
			}
			if different {
				return errors.New("files are not in their usual form; see policy fmt -w")
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&write, "write", "w", false, "write the files instead of printing them")
	c.Flags().BoolVarP(&list, "list", "l", false, "name files that are not in their usual form, and end with 1")
	c.MarkFlagsMutuallyExclusive("write", "list")
	return c
}

func (a *app) policyDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Say in words what changes, and for whom",
		Long: `diff says in words what changes from one policy file to another, and whom it affects. It prints nothing
if nothing changes that decides requests.`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			var files [2]policy.File
			for i, name := range args {
				var err error
				if files[i], err = a.readFile(name); err != nil {
					return err
				}
			}
			changes, err := policy.Diff(files[0], files[1], policy.Options{AnyName: true, WithoutSecrets: true})
			if err != nil {
				return err
			}
			for _, c := range changes {
				a.text.Line(show.Plain, c.String())
			}
			return nil
		},
	}
}

func (a *app) policyTestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test FILE TABLE...",
		Short: "Decide tables of requests by a file",
		Long: `test decides the requests of tables by a policy file, in memory, and ends with 1 if any is decided
otherwise than the table expects:

  tests:
    - name: the sixth attempt is denied
      policy: api
      requests:
        - {method: POST, route: /login, times: 5, expect: allowed}
        - {method: POST, route: /login, expect: denied, by: login}

A secret that is not in the environment is "secret-of-NAME" in tests.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := a.readFile(args[0])
			if err != nil {
				return err
			}
			options := policy.Options{AnyName: true, Env: func(name string) (string, bool) {
				if value := a.env(name); value != "" {
					return value, true
				}
				return "secret-of-" + name, true
			}}
			run, failed := 0, 0
			for _, name := range args[1:] {
				table, err := a.readFile(name)
				if err != nil {
					return err
				}
				trials, err := policy.Test(file, table, options)
				if err != nil {
					return err
				}
				for _, trial := range trials {
					run++
					if len(trial.Failures) == 0 {
						continue
					}
					failed++
					a.text.Line(show.Plain, "FAIL "+trial.Name)
					for _, f := range trial.Failures {
						a.text.Line(show.Plain, "  "+f.String())
					}
				}
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d tests failed", failed, run)
			}
			a.text.Line(show.Plain, fmt.Sprintf("%d tests passed", run))
			return nil
		},
	}
}

func (a *app) policySchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of policy files",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(policy.Schema())
			return err
		},
	}
}

// readFile reads a file, or standard input for "-".
func (a *app) readFile(name string) (policy.File, error) {
	from := a.input
	if name == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(name) //nolint:gosec // G304: the caller names it
		if err != nil {
			return policy.File{}, err
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, mostInput))
	if err != nil {
		return policy.File{}, fmt.Errorf("%s: %w", name, err)
	}
	return policy.File{Name: name, Text: text}, nil
}
