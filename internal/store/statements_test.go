package store_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// TestStatementsFitTheSchema: PostgreSQL prepares every statement of the store, so that none names a column that the
// schema lacks, whether or not a test runs it.
func TestStatementsFitTheSchema(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	all := statements(t)
	if len(all) < 200 {
		t.Fatalf("%d statements: some are not found", len(all))
	}
	for _, s := range all {
		_, err := conn.Prepare(t.Context(), s.name, store.Everywhere(s.sql))
		refused, ok := errors.AsType[*pgconn.PgError](err)
		switch {
		case err == nil:
		case ok && refused.Code == "42601": // a part of others
		case ok && refused.Code == "42P18": // it is sent with more around it, which says the type of $1
		case ok && distributed.MatchString(refused.Message):
		default:
			t.Errorf("%s: %v\n%s", s.name, err, s.sql)
		}
	}
}

// distributed are what only a distributed database has.
var distributed = regexp.MustCompile(`column "shard"|relation "pg_dist_`)

// filledIn are statements whose text is made where they are sent; their tests send them.
var filledIn = []string{"beginMarkSQL", "keepMarkSQL", "hasMarkSQL", "excessSQL", "dropSQL"}

type statementOf struct{ name, sql string }

// statements are the statements of the store, read from its source: the constants, and what is made when the program
// starts.
func statements(t *testing.T) (all []statementOf) {
	t.Helper()
	made := store.Made()
	values, inPackage := map[string]ast.Expr{}, map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../../ent/rows.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST && group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				s := spec.(*ast.ValueSpec)
				for i, name := range s.Names {
					if i >= len(s.Values) {
						continue
					}
					if group.Tok == token.VAR {
						if calls(s.Values[i], "Statement", "Insert", "oneJobSQL", "plansSQL") && made[name.Name] == "" {
							t.Errorf("%s is not among those of export_test.go", name.Name)
						}
						continue
					}
					values[name.Name], inPackage[name.Name] = s.Values[i], !strings.HasPrefix(file, "..")
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		sql, ok := textOf(values, values[name])
		if ok && inPackage[name] && begins.MatchString(sql) && !slices.Contains(filledIn, name) {
			all = append(all, statementOf{name, sql})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		all = append(all, statementOf{name, made[name]})
	}
	return all
}

var begins = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\s`)

// calls reports whether an expression calls one of some functions.
func calls(e ast.Expr, names ...string) (is bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			switch f := c.Fun.(type) {
			case *ast.Ident:
				is = is || slices.Contains(names, f.Name)
			case *ast.SelectorExpr:
				is = is || slices.Contains(names, f.Sel.Name)
			}
		}
		return true
	})
	return is
}

// textOf is a constant text; false for another value.
func textOf(values map[string]ast.Expr, e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil
	case *ast.Ident:
		return textOf(values, values[e.Name])
	case *ast.SelectorExpr:
		return textOf(values, values[e.Sel.Name])
	case *ast.ParenExpr:
		return textOf(values, e.X)
	case *ast.BinaryExpr:
		x, ok := textOf(values, e.X)
		y, also := textOf(values, e.Y)
		return x + y, ok && also && e.Op == token.ADD
	}
	return "", false
}
