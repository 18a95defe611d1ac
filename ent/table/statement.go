package table

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Set is what a statement takes at once: some columns of one row, or of many. The arguments are the values of one row,
// and arrays for many.
type Set struct {
	name    string
	one     bool
	columns []placed
}

// placed is a column of a set. Its name in the set begins with its table's: orders_id.
type placed struct {
	Column
	of, in string
}

// Part is a table of a set, or columns that are of none.
type Part interface{ named() (string, []Column) }

// Columns are those of a set that are of no table, such as what a statement does with a row.
type Columns []Column

func (b Columns) named() (string, []Column) { return "", b }

// Rows is a set of many rows, each a row of every part side by side.
func Rows(name string, parts ...Part) Set {
	s := Set{name: name}
	for _, p := range parts {
		of, columns := p.named()
		for _, c := range columns {
			in := c.Name
			if of != "" {
				in = of + "_" + c.Name
			}
			s.columns = append(s.columns, placed{c, of, in})
		}
	}
	return s
}

// One is a set of one row.
func One(name string, parts ...Part) Set {
	s := Rows(name, parts...)
	s.one = true
	return s
}

var named = regexp.MustCompile(`\{([a-z_]+)(?:\.([a-z_]+))?\}`)

// Statement makes a statement of its text. The arguments are the columns of the sets, in their order. The text names,
// in braces:
//
//	{m}          the set m of many rows, as FROM takes it: unnest(…) AS m (…)
//	{m.orders}   the columns of orders in m, as INSERT INTO orders ({orders}) SELECT {m.orders} takes them
//	{m.owner}    a column of m that is of no table; {m.orders_owner} is one that is
//	{orders}     the columns of the table orders, without those that the set leaves out
//
// Anything else in braces panics, as does a column that the text does not take: texts are constants.
func Statement(text string, sets ...Set) string {
	all := statement{sets: sets, number: map[string]int{}, taken: map[string]bool{}}
	next := 1
	for _, s := range sets {
		all.number[s.name] = next
		next += len(s.columns)
	}
	made := named.ReplaceAllStringFunc(text, all.made)
	for _, s := range sets {
		for i := range s.columns {
			if n := all.number[s.name] + i; !all.taken["$"+strconv.Itoa(n)] {
				panic(fmt.Sprintf("table: the statement does not take {%s.%s}", s.name, s.columns[i].in))
			}
		}
	}
	if i := strings.IndexAny(made, "{}"); i >= 0 {
		panic(fmt.Sprintf("table: a brace at %.40q", made[i:]))
	}
	return made
}

type statement struct {
	sets []Set
	// number is that of the first column of a set.
	number map[string]int
	taken  map[string]bool
}

// made is what stands in the statement for something in braces.
func (t statement) made(what string) string {
	m := named.FindStringSubmatch(what)
	i := slices.IndexFunc(t.sets, func(s Set) bool { return s.name == m[1] })
	if i < 0 {
		for _, s := range t.sets {
			if all := s.list(m[1], func(_ int, c placed) string { return c.Name }); all != "" {
				return all
			}
		}
		panic(fmt.Sprintf("table: %s names no set and no table", what))
	}
	s := t.sets[i]
	if m[2] == "" {
		return t.unnest(s)
	}
	all := s.list(m[2], func(i int, c placed) string {
		if s.one {
			return t.take(s, i) + "::" + c.Type
		}
		return s.name + "." + c.in
	})
	if all == "" {
		panic(fmt.Sprintf("table: %s names no column", what))
	}
	return all
}

// list is what a name stands for in a set: the columns of a table, or one column.
func (s Set) list(name string, of func(int, placed) string) string {
	var all []string
	for i, c := range s.columns {
		if c.of == name || c.in == name {
			all = append(all, of(i, c))
		}
	}
	return strings.Join(all, ", ")
}

// take is the argument of a column.
func (t statement) take(s Set, column int) string {
	n := "$" + strconv.Itoa(t.number[s.name]+column)
	t.taken[n] = true
	return n
}

func (t statement) unnest(s Set) string {
	if s.one {
		panic(fmt.Sprintf("table: {%s} is one row, which is not selected from", s.name))
	}
	arrays, in := make([]string, len(s.columns)), make([]string, len(s.columns))
	for i, c := range s.columns {
		arrays[i], in[i] = t.take(s, i)+"::"+c.Type+"[]", c.in
	}
	return fmt.Sprintf("unnest(%s) AS %s (%s)", strings.Join(arrays, ", "), s.name, strings.Join(in, ", "))
}
