package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/internal/pageapi"
)

// aboutKeys is what help says of keys.
const aboutKeys = `

KEY is a client as limits count it, such as user:42 or ip:192.0.2.7, or what such a
key is made of: a user, an address, an API key, a label. "-" reads it from standard
input, so that an API key does not stand in the list of processes.`

func (a *app) peekCommand() *cobra.Command {
	var cost int64
	c := &cobra.Command{
		Use:   "peek KEY",
		Short: "Show whether a client's next request passes",
		Long: `peek shows what a client has used of each limit and what is left. It charges nothing.

It ends with 3 if the client is denied or blocked now, so that scripts can branch.` + aboutKeys,
		Example: `  weblimit peek user:42
  weblimit peek --cost 10 192.0.2.7
  weblimit peek user:42 --json | jq '.keys[].limits[] | {limit, remaining}'
  weblimit peek user:42 >/dev/null || echo "denied, or an error"`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.look(c.Context(), args[0], cost, func(to *connection, e *pageapi.Explanation, raw []byte) error {
				if a.json {
					return a.writeJSON(raw)
				}
				for i := range e.Keys {
					if i > 0 {
						a.text.Blank()
					}
					a.writePeek(&e.Keys[i])
				}
				a.writeReach(to)
				return nil
			})
		},
	}
	c.Flags().Int64Var(&cost, "cost", 0, "what the request would cost; 0 for what the last denied one did, or 1")
	return c
}

func (a *app) explainCommand() *cobra.Command {
	var cost int64
	c := &cobra.Command{
		Use:   "explain KEY",
		Short: "Explain why a client is denied, and until when",
		Long: `explain shows each limit with its numbers, what the client has used of it, when that
recovers and why its last request was denied; also what limits in shadow mode would
have denied, and which number would suit almost all clients.

It ends with 3 if the client is denied or blocked now, so that scripts can branch.` + aboutKeys,
		Example: `  weblimit explain user:42
  weblimit explain 192.0.2.7
  weblimit explain - < api-key.txt`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.look(c.Context(), args[0], cost, func(to *connection, e *pageapi.Explanation, raw []byte) error {
				limits, _, err := get[pageapi.Limits](c.Context(), to, "limits")
				if err != nil {
					return err
				}
				if a.json {
					if raw, err = withField(raw, "suggest", suggestions(limits.Limits)); err != nil {
						return err
					}
					return a.writeJSON(raw)
				}
				for i := range e.Keys {
					if i > 0 {
						a.text.Blank()
					}
					writeExplanation(a.text, e.At, &e.Keys[i], &limits)
				}
				a.writeReach(to)
				return nil
			})
		},
	}
	c.Flags().Int64Var(&cost, "cost", 0, "what the request would cost; 0 for what the last denied one did, or 1")
	return c
}

// look looks a key up, has it shown, and returns errDenied if the client is denied.
func (a *app) look(ctx context.Context, query string, cost int64, display func(*connection, *pageapi.Explanation, []byte) error) error {
	if cost < 0 {
		return usagef("--cost must not be negative, got %d", cost)
	}
	query, err := a.keyArgument(query)
	if err != nil {
		return err
	}
	to, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer to.close()
	e, raw, err := post[pageapi.Explanation](ctx, to, "explain", pageapi.Question{Query: query, Cost: cost})
	if err != nil {
		return err
	}
	if err := display(to, &e, raw); err != nil {
		return err
	}
	denied := false
	for i := range e.Keys {
		if e.Keys[i].Error != "" {
			return errors.New(e.Keys[i].Error)
		}
		denied = denied || e.Keys[i].State == "denied" || e.Keys[i].State == "blocked"
	}
	if denied {
		return errDenied
	}
	return nil
}

// maxKey bounds a key that is read from standard input. The API takes at most 1,024 bytes.
const maxKey = 4096

// keyArgument returns the key that an argument stands for.
func (a *app) keyArgument(argument string) (string, error) {
	if argument == "-" {
		text, err := io.ReadAll(io.LimitReader(a.input, maxKey))
		if err != nil {
			return "", fmt.Errorf("the key can't be read: %w", err)
		}
		argument = strings.TrimRight(string(text), "\r\n")
	}
	if argument == "" {
		return "", usagef("the key is empty")
	}
	return argument, nil
}

// writeReach says which limits are not in an answer.
func (a *app) writeReach(to *connection) {
	if text := to.reach(); text != "" {
		a.text.Blank()
		a.text.Line(show.Dim, text)
	}
}

// writeHead writes who it is about, and what happens to the next request.
func writeHead(out *show.Out, k *pageapi.Key) {
	style := show.Green
	switch k.State {
	case "denied", "blocked":
		style = show.Red
	case "unknown":
		style = show.Plain
	}
	label := inParens(k.Label)
	if label != "" {
		label = " " + label
	}
	out.Line(show.Bold, "", show.Key(k.Key), label)
	out.Line(style, k.Summary)
}

func (a *app) writePeek(k *pageapi.Key) {
	writeHead(a.text, k)
	if len(k.Limits) == 0 {
		return
	}
	a.text.Blank()
	t := show.Table{Columns: []show.Column{
		{Title: "LIMIT", Most: 64, Least: 12},
		{Title: "STATE"},
		{Title: "USED", Right: true},
		{Title: "LEFT", Right: true},
		{Title: "OF", Right: true},
		{Title: "FITS IN", Right: true},
		{Title: "ALL BACK IN", Right: true},
	}}
	for i := range k.Limits {
		l := &k.Limits[i]
		state, style := stateWord(l)
		if l.State == "unknown" {
			t.Add(show.Cell{Text: l.Limit}, show.Cell{Text: state}, show.Cell{}, show.Cell{}, show.Cell{Text: grouped(l.Burst)}, show.Cell{}, show.Cell{})
			continue
		}
		t.Add(show.Cell{Text: l.Limit}, show.Cell{Text: state, Style: style}, show.Cell{Text: grouped(l.Used)},
			show.Cell{Text: grouped(l.Remaining)}, show.Cell{Text: grouped(l.Burst)}, show.Cell{Text: fitsIn(l)},
			show.Cell{Text: allBackIn(l)})
	}
	a.text.Table(&t)
}

// fitsIn says when a request fits.
func fitsIn(l *pageapi.State) string {
	switch {
	case l.RetryAfterMS > 0:
		return lasting(millis(l.RetryAfterMS))
	case l.State == "denied":
		return "never"
	}
	return "now"
}

// allBackIn says when a client has all of a limit again.
func allBackIn(l *pageapi.State) string {
	if l.Used <= 0 && l.State != "blocked" {
		return "now"
	}
	return lasting(millis(l.FullAfterMS))
}

// shareText says which part of a limit a client has that clients divide.
func shareText(l *pageapi.State) string {
	if l.Standing == "" {
		return ""
	}
	text := fmt.Sprintf("; share %s per window, %s", grouped(l.Share), l.Standing)
	if l.Guaranteed > 0 {
		text += fmt.Sprintf("; %s are kept for minima", grouped(l.Guaranteed))
	}
	return text
}

func writeExplanation(out *show.Out, now time.Time, k *pageapi.Key, limits *pageapi.Limits) {
	writeHead(out, k)
	for i := range k.Limits {
		l := &k.Limits[i]
		out.Blank()
		state, style := stateWord(l)
		mode := ""
		if l.Shadow {
			mode = ", in shadow mode: not enforced"
		}
		out.Line(style, fmt.Sprintf("%s: %s (%s, %s%s)", l.Limit, state, l.Numbers, l.Algorithm, mode))
		if l.State == "blocked" || l.State == "unknown" {
			out.Item("now", l.Why)
		}
		if l.State != "unknown" {
			out.Item("used", fmt.Sprintf("%s of %s, %s left", grouped(l.Used), grouped(l.Burst), grouped(l.Remaining))+shareText(l))
			out.Item("recovers", recovers(l))
		}
		switch len(l.Versions) {
		case 0:
		case 1:
			out.Item("policy", l.Versions[0])
		default:
			out.Item("policy", strings.Join(l.Versions, " or ")+": instances have different versions, see weblimit top")
		}
		if l.Kept {
			out.Item("reset", "not possible: it is kept in a book, for bills. To let the client go on: weblimit quota adjust")
		}
		if !l.BlockedUntil.IsZero() {
			out.Item("blocked", "until "+moment(l.BlockedUntil))
		}
		if d := l.LastDenial; d != nil {
			title := "last denial"
			if l.Shadow {
				title = "would deny"
			}
			text := ago(d.At, now) + ". " + d.Why
			if d.Version != "" {
				text += " By policy " + d.Version + "."
			}
			out.Item(title, text)
		}
		if l.Minute != nil && l.Hour != nil {
			out.Item("last minute", inWords(l.Minute))
			out.Item("last hour", inWords(l.Hour))
		}
		for j := range limits.Limits {
			if of := &limits.Limits[j]; of.Name == l.Limit && of.Suggest != nil {
				out.Item("suggestion", suggested(of)+fmt.Sprintf("; %s stay within the present %s", percent(of.Suggest.Within), grouped(of.Quota)))
			}
		}
		explainRegions(out, limits.Regions, l.Limit)
	}
	if len(k.Unused) > 0 {
		out.Blank()
		out.Line(show.Dim, "Unused: "+strings.Join(k.Unused, ", "))
	}
}

// recovers says when a request fits, and when all of a limit is there again.
func recovers(l *pageapi.State) string {
	if l.Used <= 0 || l.FullAfterMS <= 0 {
		return "nothing to recover"
	}
	full := "all of it in " + lasting(millis(l.FullAfterMS))
	switch {
	case l.RetryAfterMS > 0:
		return fmt.Sprintf("a cost of %s fits in %s, %s", grouped(l.Cost), lasting(millis(l.RetryAfterMS)), full)
	case l.State == "denied":
		return fmt.Sprintf("a cost of %s never fits; %s", grouped(l.Cost), full)
	}
	return full
}

// inWords writes counts of requests.
func inWords(c *pageapi.Counts) string {
	text := plural(c.Requests, "request")
	if c.Denied > 0 {
		text += ", " + grouped(c.Denied) + " denied"
	}
	if c.WouldDeny > 0 {
		text += ", " + grouped(c.WouldDeny) + " would have been denied"
	}
	return text
}
