package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/policy"
)

// releaseJSON is a release as --json prints it.
type releaseJSON struct {
	Release int64     `json:"release"`
	At      time.Time `json:"at"`
	File    string    `json:"file"`
	Version string    `json:"version"`
	Hash    string    `json:"sha256"`
	By      string    `json:"by,omitempty"`
	Note    string    `json:"note,omitempty"`
	Of      int64     `json:"of,omitempty"`
}

func releaseRow(r *policy.Release) releaseJSON {
	return releaseJSON{r.Number, r.At.UTC(), r.File, r.Version.Name, r.Version.Hash, r.By, r.Note, r.Of}
}

func (a *app) policyLogCommand() *cobra.Command {
	var f archiveFlags
	c := &cobra.Command{
		Use:   "log",
		Short: "Show who has published what, and when",
		Long: `log shows the releases of a fleet's policy file, the last one first. The source keeps the last 50, and
fewer if they are large.`,
		Example: `  weblimit policy log --to redis://redis.example.com:6379
  weblimit policy log --to postgres://ops@db.example.com/app --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			from, err := a.openArchive(c.Context(), c, &f)
			if err != nil {
				return err
			}
			defer from.close()
			all, err := from.Releases(c.Context())
			if err != nil {
				return err
			}
			if a.json {
				rows := make([]releaseJSON, len(all))
				for i := range all {
					rows[i] = releaseRow(&all[i])
				}
				return a.marshal(map[string]any{"releases": rows})
			}
			if len(all) == 0 {
				a.text.Line(show.Plain, "Nothing is published as "+from.where+".")
				return nil
			}
			t := show.Table{Columns: []show.Column{
				{Title: "RELEASE", Right: true}, {Title: "AT"}, {Title: "BY", Most: 40, Least: 8}, {Title: "VERSION", Most: 60, Least: 16}, {Title: "NOTE", Most: 80, Least: 8},
			}}
			for i := range all {
				r := &all[i]
				note := r.Note
				if r.Of > 0 {
					note = "back to " + strconv.FormatInt(r.Of, 10)
					if r.Note != "" {
						note += ": " + r.Note
					}
				}
				t.Add(show.Cell{Text: strconv.FormatInt(r.Number, 10)}, show.Cell{Text: moment(r.At)}, show.Cell{Text: r.By}, show.Cell{Text: r.Version.String()}, show.Cell{Text: note})
			}
			a.text.Table(&t)
			return nil
		},
	}
	f.add(a, c)
	return c
}

func (a *app) policyStatusCommand() *cobra.Command {
	var f archiveFlags
	c := &cobra.Command{
		Use:   "status",
		Short: "Show what a fleet is given, and whether it is good",
		Long: `status shows the present release of a fleet's policy file, and checks the file as each process does. It
ends with 1 if there is none, if processes refuse it, or if somebody has written it without publishing.
Which version each process decides by is in weblimit top, and in the metric weblimit_policy_info.`,
		Example: `  weblimit policy status --to redis://redis.example.com:6379`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			from, err := a.openArchive(c.Context(), c, &f)
			if err != nil {
				return err
			}
			defer from.close()
			return a.policyStatus(c.Context(), from)
		},
	}
	f.add(a, c)
	return c
}

// policyStatus prints the state of an archive. Its error says what is wrong with the file.
func (a *app) policyStatus(ctx context.Context, from *archive) error {
	all, err := from.Releases(ctx)
	if err != nil {
		return err
	}
	file, err := from.Load(ctx)
	if err != nil {
		return err
	}
	_, wrong := parsed(file)
	envoy := isEnvoys(wrong)
	if envoy {
		wrong = nil
	}
	strange := len(all) == 0 || all[0].Version.Hash != hashOf(file.Text)
	if a.json {
		answer := map[string]any{"published": !strange, "envoy": envoy}
		if !envoy {
			answer["good"] = wrong == nil
		}
		if len(all) > 0 {
			answer["release"] = releaseRow(&all[0])
		}
		if err := a.marshal(answer); err != nil {
			return err
		}
	} else {
		a.text.Line(show.Bold, from.where)
		if len(all) > 0 {
			r := &all[0]
			a.text.Line(show.Plain, fmt.Sprintf("%s, of %s by %s", r, moment(r.At), somebody(r.By)))
		}
		if envoy {
			a.text.Line(show.Plain, "A file of Envoy's rate limit service, which is not checked here: weblimitd status says what an instance makes of it.")
		}
		if wrong != nil {
			if err := a.problems(wrong); err != nil {
				return err
			}
		}
	}
	switch {
	case wrong != nil:
		return errors.New("processes refuse this file; see weblimit policy rollback")
	case strange:
		return errors.New("the file is not that of the last release: somebody has written it without publishing")
	}
	return nil
}

func (a *app) policyGetCommand() *cobra.Command {
	var f archiveFlags
	c := &cobra.Command{
		Use:   "get [RELEASE]",
		Short: "Print the file that a fleet is given, or that of an earlier release",
		Example: `  weblimit policy get --to redis://redis.example.com:6379 > limits.yaml
  weblimit policy get 12 --to redis://redis.example.com:6379 | weblimit policy diff - limits.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			number, err := releaseOf(args)
			if err != nil {
				return err
			}
			from, err := a.openArchive(c.Context(), c, &f)
			if err != nil {
				return err
			}
			defer from.close()
			var file policy.File
			if number > 0 {
				file, err = from.Read(c.Context(), number)
			} else {
				file, err = from.Load(c.Context())
			}
			if err != nil {
				return err
			}
			_, err = a.out.Write(file.Text)
			return err
		},
	}
	f.add(a, c)
	return c
}

// marshal writes JSON.
func (a *app) marshal(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return a.writeJSON(text)
}

// hashOf returns the hash of a policy.Version.
func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
