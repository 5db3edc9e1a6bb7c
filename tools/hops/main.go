// Command hops counts the functions that a change passes between the row and Envoy: every function
// of this project that each change of a route calls, in mcp-server and in discovery. It also counts
// those that a change calls exactly once.
//
//	make hops                       # this tree
//	make hops TREE=/src/older       # another one
//	make hops FLAGS=--list          # each function, with how often a change calls it
//
// It builds the programs with counters, has the benchmark make few changes and then many, and takes
// the difference.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/pgmesh/pgmesh/"

// Changes of the two runs.
const few, many = 50, 250

// leastCalls is how many times a change has to call a function, at least, for the function to be on its
// way: pushes may take two changes at once.
const leastCalls = 0.9

func main() {
	log.SetFlags(0)
	list := flag.Bool("list", false, "also list each function, with how often a change calls it")
	flag.Usage = func() { fmt.Fprintln(flag.CommandLine.Output(), "usage: hops [--list] [FOLDER]") }
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	calls, err := measure(root)
	if err != nil {
		log.Fatal(err)
	}
	print(calls, *list)
}

// measure returns how often a change calls each function on its way.
func measure(root string) (map[string]float64, error) {
	before, err := count(root, few)
	if err != nil {
		return nil, err
	}
	after, err := count(root, many)
	if err != nil {
		return nil, err
	}
	calls := map[string]float64{}
	for name, n := range after {
		if per := float64(n-before[name]) / (many - few); per >= leastCalls {
			calls[name] = per
		}
	}
	return calls, nil
}

// count runs the benchmark of a change, and returns how often it called each function.
func count(root string, changes int) (map[string]int, error) {
	counters, err := os.MkdirTemp("", "hops")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(counters)
	bench := filepath.Join(counters, "bench")
	if err := build(root, bench); err != nil {
		return nil, err
	}
	var packages []string
	for _, folder := range []string{"identity", "internal", "kinds", "mcp-client", "mcp-server", "discovery", "store"} {
		packages = append(packages, module+folder+"/...")
	}
	run := exec.Command(bench, "--only", "change", "--changes", strconv.Itoa(changes))
	run.Dir, run.Stderr = root, os.Stderr
	run.Env = append(os.Environ(), "GOCOVERDIR="+counters, "GOFLAGS=-cover -covermode=atomic -coverpkg="+strings.Join(packages, ","))
	if err := run.Run(); err != nil {
		return nil, fmt.Errorf("run the benchmark with %d changes: %w", changes, err)
	}
	profile := filepath.Join(counters, "profile")
	if out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i="+counters, "-o="+profile).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("read the counters: %w\n%s", err, out)
	}
	return functions(root, profile)
}

// build builds the benchmark, which may be a module of its own. It runs at the root all the same:
// it builds the programs from there.
func build(root, bench string) error {
	args := []string{"build", "-o", bench, "./bench"}
	if _, err := os.Stat(filepath.Join(root, "bench", "go.mod")); err == nil {
		args = []string{"-C", "bench", "build", "-o", bench, "."}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the benchmark: %w\n%s", err, out)
	}
	return nil
}

// block is the first statements of a function, as far as the profile was read.
type block struct{ line, column, count int }

// functions finds how often each function was called: as often as its first block was run.
func functions(root, profile string) (map[string]int, error) {
	file, err := os.Open(profile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	blocks := map[string][]block{}
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		name, rest, _ := strings.Cut(scanner.Text(), ":")
		var b block
		var endLine, endColumn, statements int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.line, &b.column, &endLine, &endColumn, &statements, &b.count); err == nil {
			blocks[name] = append(blocks[name], b)
		}
	}
	called := map[string]int{}
	for name, in := range blocks {
		if err := ofFile(root, name, in, called); err != nil {
			return nil, err
		}
	}
	return called, nil
}

func ofFile(root, name string, blocks []block, called map[string]int) error {
	relative, ours := strings.CutPrefix(name, module)
	if !ours {
		return nil
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, filepath.Join(root, relative), nil, 0)
	if err != nil {
		return err
	}
	for _, d := range parsed.Decls {
		f, isFunction := d.(*ast.FuncDecl)
		if !isFunction || f.Body == nil {
			continue
		}
		from, to := files.Position(f.Body.Lbrace), files.Position(f.Body.Rbrace)
		first := block{line: to.Line + 1}
		for _, b := range blocks {
			if !less(b.line, b.column, from.Line, from.Column) && less(b.line, b.column, first.line, first.column) {
				first = b
			}
		}
		called[path.Dir(relative)+"."+receiver(f)+f.Name.Name] += first.count
	}
	return nil
}

func less(line, column, thanLine, thanColumn int) bool {
	return line < thanLine || line == thanLine && column < thanColumn
}

// receiver is the type that a method is of, with a dot.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name + "."
		default:
			return ""
		}
	}
}

func print(calls map[string]float64, list bool) {
	all, once := map[string]int{}, map[string]int{}
	onceInAll := 0
	for name, per := range calls {
		p := packageOf(name)
		all[p]++
		if per < 2-leastCalls {
			once[p]++
			onceInAll++
		}
	}
	fmt.Printf("%-40s %10s %10s\n", "package", "functions", "once")
	for _, p := range slices.Sorted(maps.Keys(all)) {
		fmt.Printf("%-40s %10d %10d\n", p, all[p], once[p])
		if !list {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			if packageOf(name) == p {
				fmt.Printf("    %-60s %8.1f\n", strings.TrimPrefix(name, p+"."), calls[name])
			}
		}
	}
	fmt.Printf("%-40s %10d %10d\n", "a change passes", len(calls), onceInAll)
}

// packageOf is the folder of a function, whose name begins after the first dot behind the last
// slash.
func packageOf(name string) string {
	folder, last := path.Split(name)
	last, _, _ = strings.Cut(last, ".")
	return folder + last
}
