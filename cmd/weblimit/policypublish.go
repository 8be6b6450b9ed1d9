package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/pgsource"
)

// publishing are the flags of publish and rollback.
type publishing struct {
	archiveFlags
	by, note   string
	yes, force bool
	after      int64
}

func (p *publishing) add(a *app, c *cobra.Command) {
	p.archiveFlags.add(a, c)
	flags := c.Flags()
	flags.StringVar(&p.by, "by", "", "who publishes, for the log ($WEBLIMIT_BY, user@host)")
	flags.StringVar(&p.note, "note", "", "why, for the log")
	flags.BoolVarP(&p.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&p.force, "force", false, "publish even if somebody else has published meanwhile")
	flags.Int64Var(&p.after, "after", -1, "publish only if this is the present release; 0 for none. Defaults to the one that the differences are shown to")
}

func (a *app) policyPublishCommand() *cobra.Command {
	var p publishing
	create := false
	c := &cobra.Command{
		Use:   "publish FILE",
		Short: "Give a file to a whole fleet, which changes within a second",
		Long: `publish checks a file, says in words what changes, asks on a terminal, and publishes it in the Redis or
PostgreSQL that a fleet follows (redissource, pgsource). A wrong file changes nothing. If somebody else
has published meanwhile, nothing changes either; --force publishes all the same.

The same file again is no new release, so that a pipeline can run twice.`,
		Example: `  weblimit policy publish limits.yaml --to redis://redis.example.com:6379
  weblimit policy publish limits.yaml --to postgres://ops@db.example.com/app --note "ticket 4711"`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := a.readFile(args[0])
			if err != nil {
				return err
			}
			// First, so that a wrong file needs no connection to be told.
			if _, err := parsed(file); err != nil {
				if isEnvoys(err) {
					return errors.New("this is a file of Envoy's rate limit service: weblimitd publish FILE --envoy-config redis:KEY publishes it; nothing was published")
				}
				if err := a.problems(err); err != nil {
					return err
				}
				return errors.New("a wrong policy file; nothing was published")
			}
			file.Name = filepath.Base(file.Name) // the fleet need not know this machine
			to, err := a.openArchive(c.Context(), c, &p.archiveFlags)
			if err != nil {
				return err
			}
			defer to.close()
			if create {
				if to.pool == nil {
					return usagef("--create is for PostgreSQL")
				}
				if err := pgsource.Migrate(c.Context(), to.pool, pgsource.Config{Schema: p.schema}); err != nil {
					return err
				}
			}
			all, err := to.Releases(c.Context())
			if err != nil {
				return err
			}
			if now, err := to.Load(c.Context()); err == nil && isOfEnvoy(now) {
				return fmt.Errorf("%s is a file of Envoy's rate limit service: publish policies under another name; nothing was published", to.where)
			}
			return a.release(c.Context(), to, &p, all, file, func(how policy.Publication) (policy.Release, error) {
				return policy.Publish(c.Context(), to, file, how)
			})
		},
	}
	p.add(a, c)
	c.Flags().BoolVar(&create, "create", false, "make the table of PostgreSQL if it is missing, with a role that may")
	return c
}

func (a *app) policyRollbackCommand() *cobra.Command {
	var p publishing
	c := &cobra.Command{
		Use:   "rollback [RELEASE]",
		Short: "Give a fleet an earlier release again",
		Long: `rollback publishes an earlier release again, as a new one: the one that decided before the present
one, or that of a number of weblimit policy log. A second rollback goes back further. It says in words
what changes, and asks on a terminal.

A file of Envoy's rate limit service, which weblimitd publishes, is not checked again.`,
		Example: `  weblimit policy rollback --to redis://redis.example.com:6379
  weblimit policy rollback 12 --to postgres://ops@db.example.com/app --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			number, err := releaseOf(args)
			if err != nil {
				return err
			}
			to, err := a.openArchive(c.Context(), c, &p.archiveFlags)
			if err != nil {
				return err
			}
			defer to.close()
			all, err := to.Releases(c.Context())
			if err != nil {
				return err
			}
			target, err := policy.RollbackTarget(all, number)
			if err != nil {
				return err
			}
			file, err := to.Read(c.Context(), target.Number)
			if err != nil {
				return err
			}
			a.text.Line(show.Plain, fmt.Sprintf("Back to %s, of %s by %s.", target, moment(target.At), somebody(target.By)))
			return a.release(c.Context(), to, &p, all, file, func(how policy.Publication) (policy.Release, error) {
				if isOfEnvoy(file) {
					how.Validate = uncheckedEnvoy
				}
				return policy.Rollback(c.Context(), to, target.Number, how)
			})
		},
	}
	p.add(a, c)
	return c
}

// releaseOf reads the number of a release, or returns 0 if there is none.
func releaseOf(args []string) (int64, error) {
	if len(args) == 0 {
		return 0, nil
	}
	number, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil || number < 1 {
		return 0, usagef("RELEASE is a number of weblimit policy log, got %q", args[0])
	}
	return number, nil
}

func somebody(by string) string {
	if by == "" {
		return "somebody"
	}
	return by
}

// release says what a file changes, asks, and publishes it over the release that was looked at.
func (a *app) release(ctx context.Context, to *archive, p *publishing, all []policy.Release, file policy.File, publish func(policy.Publication) (policy.Release, error)) error {
	var last policy.Release
	if len(all) > 0 {
		last = all[0]
	}
	if p.after >= 0 && !p.force && p.after != last.Number {
		return fmt.Errorf("%s: %w", to.where, overtaken(all))
	}
	same, err := a.sayChanges(ctx, to, file, len(all) > 0)
	if err != nil {
		return err
	}
	if same && len(all) > 0 && last.Version.Hash == hashOf(file.Text) {
		a.text.Line(show.Plain, fmt.Sprintf("%s has this file already: %s, of %s by %s.", to.where, last, moment(last.At), somebody(last.By)))
		return nil
	}
	if err := a.agreed(ctx, p.yes, "Publish it as "+to.where+"?"); err != nil {
		return err
	}
	how := policy.Publication{By: a.publisher(p.by), Note: p.note}
	// Somebody has agreed to the differences to this release, so it is this one that is replaced, or none.
	if !p.force {
		how.Replaces = &last
	}
	made, err := publish(how)
	switch {
	case errors.Is(err, policy.ErrOvertaken):
		if all, failed := to.Releases(ctx); failed == nil {
			err = overtaken(all)
		}
		return fmt.Errorf("%s: %w", to.where, err)
	case err != nil:
		if err := a.problems(err); err != nil {
			return err
		}
		return errors.New("a wrong policy file; nothing was published") // of an earlier version of this program
	}
	a.text.Line(show.Plain, fmt.Sprintf("Published as %s: %s.", to.where, made))
	return nil
}

// overtaken says who was faster.
func overtaken(all []policy.Release) error {
	if len(all) == 0 {
		return fmt.Errorf("%w: nothing is published there; nothing was changed", policy.ErrOvertaken)
	}
	last := all[0]
	return fmt.Errorf("%w: %s, of %s by %s; nothing was changed. Run the command again to see the differences to it, or with --force", policy.ErrOvertaken, last, moment(last.At), somebody(last.By))
}

// sayChanges says what changes for the fleet, and whether nothing does.
func (a *app) sayChanges(ctx context.Context, to *archive, file policy.File, published bool) (same bool, err error) {
	now, err := to.Load(ctx)
	if err != nil {
		if published {
			return false, err
		}
		set, err := parsed(file)
		if err != nil {
			return false, err
		}
		names := set.Names()
		a.text.Line(show.Plain, fmt.Sprintf("The first release of %s, with policies %s.", to.where, strings.Join(names[:min(len(names), 10)], ", ")))
		return false, nil
	}
	if string(now.Text) == string(file.Text) {
		return true, nil
	}
	if isOfEnvoy(file) {
		a.text.Line(show.Plain, "Limits of Envoy's rate limit service change. What changes is not told: compare what weblimit policy get prints.")
		return false, nil
	}
	if !good(now) {
		a.text.Line(show.Yellow, "What is there now is no good file, so that differences can't be told.")
		return false, nil
	}
	changes, err := policy.Diff(now, file, policy.Options{AnyName: true, WithoutSecrets: true})
	if err != nil {
		return false, err
	}
	for _, c := range changes {
		a.text.Line(show.Plain, c.String())
	}
	if len(changes) == 0 {
		a.text.Line(show.Plain, "Nothing changes that decides requests.")
	}
	return false, nil
}

// good reports whether a file would be followed.
func good(file policy.File) bool {
	_, err := parsed(file)
	return err == nil
}
