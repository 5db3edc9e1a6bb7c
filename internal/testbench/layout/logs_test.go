package layout

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// logging are the methods of a logger, with how many arguments come before the attributes, and one
// of mcp-server/identity/members that passes its own on.
var logging = map[string]int{"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "With": 0, "Log": 3, "logged": 3}

// byConfig are the fields of configurations that hold the key of an attribute, with what is in them.
var byConfig = map[string][]string{"Called": {"client", "proxy"}}

// passedOn are the keys that no call of a logger has: those of slog, and of lines of Envoy's.
var passedOn = []string{"time", "level", "msg", "component", "source", "from"}

// attributes collects the keys of attributes in what is logged, and where each was found first.
type attributes struct {
	t     *testing.T
	files *token.FileSet
	found map[string]string
}

// Who collects the logs of all programs looks for one name of a thing.
func TestEveryAttributeOfTheLogIsDocumented(t *testing.T) {
	t.Parallel()
	a := &attributes{t, token.NewFileSet(), map[string]string{}}
	for _, folder := range slices.Concat(programs, []string{"store"}) {
		require.NoError(t, filepath.WalkDir(filepath.Join("../../..", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.Contains(filepath.ToSlash(path), "/testbench/") {
				return err
			}
			a.read(path)
			return nil
		}))
	}
	for _, key := range passedOn {
		a.found[key] = cmp.Or(a.found[key], "slog, or mesh-agent/envoy/envoylog")
	}
	require.Greater(t, len(a.found), 100, "the calls of loggers are not found any more")
	listed := documentedAttributes(t)
	for key, at := range a.found {
		require.Regexp(t, `^[a-z]+(_[a-z]+)*$`, key, at)
		require.Contains(t, listed, key, "%s logs %q: use a key that docs/debugging.md lists, or list it there", at, key)
	}
	for key := range listed {
		require.Contains(t, a.found, key, "docs/debugging.md lists it, and nothing logs it")
	}
}

// documentedAttributes are the keys in the tables below the heading "The log".
func documentedAttributes(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../../../docs/debugging.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## The log\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	keys := map[string]bool{}
	var rows []string
	for _, row := range regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\|").FindAllStringSubmatch(section, -1) {
		for key := range strings.SplitSeq(row[1], ", ") {
			key = strings.Trim(key, "`")
			require.False(t, keys[key], "%s is listed twice", key)
			keys[key] = true
		}
		rows = append(rows, row[1])
	}
	require.NotEmpty(t, slices.Collect(maps.Keys(keys)), "rows: %v", rows)
	return keys
}

func (a *attributes) read(path string) {
	a.t.Helper()
	file, err := parser.ParseFile(a.files, path, nil, 0)
	require.NoError(a.t, err)
	slogs := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"log/slog"` })
	lists := map[string]*ast.CompositeLit{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt: // about := []any{"key", value}, for a call with about...
			if list, ok := n.Rhs[0].(*ast.CompositeLit); ok && nameOf(n.Lhs[0]) != "" {
				lists[nameOf(n.Lhs[0])] = list
			}
			a.appended(n)
		case *ast.CallExpr:
			a.call(n, lists, slogs)
		}
		return true
	})
}

// appended reads about = append(about, "key", value).
func (a *attributes) appended(n *ast.AssignStmt) {
	call, ok := n.Rhs[0].(*ast.CallExpr)
	if ok && nameOf(call.Fun) == "append" && nameOf(n.Lhs[0]) == "about" && len(call.Args) == 3 {
		a.keys(call.Args[1:])
	}
}

func (a *attributes) call(n *ast.CallExpr, lists map[string]*ast.CompositeLit, slogs bool) {
	a.t.Helper()
	method, ok := n.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	if nameOf(method.X) == "slog" && slices.Contains([]string{"String", "Int", "Int64", "Uint64", "Duration", "Any", "Bool", "Time"}, method.Sel.Name) {
		a.key(n.Args[0], slogs)
		return
	}
	before, logs := logging[method.Sel.Name]
	if !logs || !isLogger(method.X) && method.Sel.Name != "logged" || len(n.Args) <= before {
		return
	}
	args := n.Args[before:]
	if appended, ok := args[0].(*ast.CallExpr); ok && n.Ellipsis.IsValid() {
		args = appended.Args[1:]
	} else if n.Ellipsis.IsValid() {
		list := lists[nameOf(args[0])]
		require.NotNil(a.t, list, "%s: the attributes are not in a list of this file", a.files.Position(n.Pos()))
		args = list.Elts
	}
	a.keys(args)
}

// keys reads the keys of pairs, among which may be attributes of slog's, which are calls.
func (a *attributes) keys(args []ast.Expr) {
	a.t.Helper()
	for len(args) > 0 {
		if _, whole := args[0].(*ast.CallExpr); whole {
			args = args[1:]
			continue
		}
		a.key(args[0], true)
		args = args[min(2, len(args)):]
	}
}

// key notes a key. Where it has to be, it must be a text, or in a configuration.
func (a *attributes) key(e ast.Expr, must bool) {
	a.t.Helper()
	at := a.files.Position(e.Pos()).String()
	switch e := e.(type) {
	case *ast.BasicLit:
		key, err := strconv.Unquote(e.Value)
		require.NoError(a.t, err)
		a.found[key] = cmp.Or(a.found[key], at)
		return
	case *ast.SelectorExpr:
		if of, some := byConfig[e.Sel.Name]; some {
			for _, key := range of {
				a.found[key] = cmp.Or(a.found[key], at)
			}
			return
		}
		must = must && e.Sel.Name != "Key" // an attribute that is passed on
	}
	require.False(a.t, must, "%s: what is the key of this attribute?", at)
}

// isLogger goes by names: log, Log, and calls of Log().
func isLogger(e ast.Expr) bool {
	if call, ok := e.(*ast.CallExpr); ok {
		e = call.Fun
	}
	name := nameOf(e)
	return name == "log" || name == "Log"
}

// nameOf is the last part of a name; "" for any other expression.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
