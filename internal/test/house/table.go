package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// table is figures under one title, with a name for each row and a heading for each value.
type table struct {
	title string
	head  []string
	rows  []row
}

type row struct {
	name   string
	values []int
}

// sum adds up a column.
func sum(t table, column int) (n int) {
	for _, r := range t.rows {
		n += r.values[column]
	}
	return n
}

// find returns the values of a row, nil if it is not there.
func (t table) find(name string) []int {
	for _, r := range t.rows {
		if r.name == name {
			return r.values
		}
	}
	return nil
}

// show writes the tables of two states of the repository. A figure that has changed is written as before→after.
func show(w io.Writer, before, after []table) error {
	for i, now := range after {
		then := before[i]
		named := names(then, now)
		width := 0
		for _, name := range append(named, now.title) {
			width = max(width, len(name))
		}
		aligned := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(aligned, "\n%-*s\t%s\t\n", width, now.title, strings.Join(now.head, "\t"))
		for _, name := range named {
			fmt.Fprintf(aligned, "%-*s\t", width, name)
			for column := range now.head {
				fmt.Fprint(aligned, figure(then.find(name), now.find(name), column), "\t")
			}
			fmt.Fprintln(aligned)
		}
		if err := aligned.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// names returns those of the rows of both tables, first those that are there now.
func names(then, now table) (all []string) {
	for _, t := range []table{now, then} {
		for _, r := range t.rows {
			if !slices.Contains(all, r.name) {
				all = append(all, r.name)
			}
		}
	}
	return all
}

// figure writes one value of a row. A row that is not there has 0 of everything.
func figure(then, now []int, column int) string {
	one, other := 0, 0
	if then != nil {
		one = then[column]
	}
	if now != nil {
		other = now[column]
	}
	if one == other {
		return strconv.Itoa(other)
	}
	return fmt.Sprintf("%d→%d", one, other)
}
