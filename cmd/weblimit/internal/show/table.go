package show

import (
	"slices"
	"strings"
)

// Column is a column of a [Table].
type Column struct {
	Title string
	Right bool // its cells end at the same column: for numbers
	Most  int  // columns of the terminal that it takes at most
	Least int  // to how many it shrinks where the terminal is narrow; 0 if it does not shrink
}

// Cell is a cell of a [Table]: a key, a text or both.
type Cell struct {
	Key   Key
	Text  string
	Style Style
}

// Table has columns that are as wide as what is in them.
type Table struct {
	Columns []Column
	rows    [][]Cell
}

// Add adds a row, one cell per column.
func (t *Table) Add(row ...Cell) { t.rows = append(t.rows, row) }

// Rows returns how many rows there are.
func (t *Table) Rows() int { return len(t.rows) }

const (
	gap       = "  "
	mostCells = 120 // columns of a cell, if its Column does not say
)

// Table writes a table.
func (o *Out) Table(t *Table) {
	widths := make([]int, len(t.Columns))
	texts := make([][]string, 0, len(t.rows))
	for i, c := range t.Columns {
		widths[i] = Width(c.Title)
	}
	for _, row := range t.rows {
		line := make([]string, len(row))
		for i, cell := range row {
			line[i] = cell.safe(t.Columns[i].most())
			widths[i] = max(widths[i], Width(line[i]))
		}
		texts = append(texts, line)
	}
	o.shrink(t, widths)
	var head strings.Builder
	for i, c := range t.Columns {
		head.WriteString(o.cell(c, Cell{Style: Dim}, c.Title, widths[i], i == len(widths)-1))
	}
	o.write(strings.TrimRight(head.String(), " ") + "\n")
	for r, row := range t.rows {
		var line strings.Builder
		for i, c := range t.Columns {
			text := texts[r][i]
			if Width(text) > widths[i] {
				text = row[i].safe(widths[i])
			}
			line.WriteString(o.cell(c, row[i], text, widths[i], i == len(widths)-1))
		}
		o.write(strings.TrimRight(line.String(), " ") + "\n")
	}
}

func (c *Cell) safe(columns int) string {
	if c.Key == "" {
		return Safe(c.Text, columns)
	}
	key := c.Key.safe(columns)
	if left := columns - Width(key) - 1; c.Text != "" && left > 0 {
		key += " " + Safe(c.Text, left)
	}
	return key
}

func (c *Column) most() int {
	if c.Most > 0 {
		return c.Most
	}
	return mostCells
}

// shrink makes columns narrower until the table fits the terminal, as far as they may: the last
// first, since keys are to be read whole.
func (o *Out) shrink(t *Table, widths []int) {
	if o.Width <= 0 {
		return
	}
	excess := (len(widths)-1)*len(gap) - o.Width
	for _, w := range widths {
		excess += w
	}
	for i, c := range slices.Backward(t.Columns) {
		if c.Least > 0 && excess > 0 && widths[i] > c.Least {
			less := min(excess, widths[i]-c.Least)
			widths[i] -= less
			excess -= less
		}
	}
}

func (o *Out) cell(c Column, cell Cell, safe string, width int, last bool) string {
	blanks := strings.Repeat(" ", max(width-Width(safe), 0))
	text := o.styled(cell.Style, safe)
	switch {
	case c.Right:
		text = blanks + text
	case !last:
		text += blanks
	}
	if !last {
		text += gap
	}
	return text
}
