// Command count measures how a Go tree is written: how long its files and functions are, how deep
// they nest, how much of them is comments.
//
//	make count                       # this tree, folder by folder
//	make count TREE=/src/contour     # another, to hold beside it
//
// Generated code is left out. Tests are counted by themselves.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	log.SetFlags(0)
	flag.Usage = func() { fmt.Fprintln(flag.CommandLine.Output(), "usage: count [FOLDER]") }
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	folders, err := read(root)
	if err != nil {
		log.Fatal(err)
	}
	if err := print(folders); err != nil {
		log.Fatal(err)
	}
}

// read counts every Go file below a folder, by the first folder of its path.
func read(root string) (map[string]*folder, error) {
	folders := map[string]*folder{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path != root && (strings.HasPrefix(name, ".") || name == "vendor" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		top, _, below := strings.Cut(filepath.ToSlash(relative), "/")
		if !below {
			top = "."
		}
		if folders[top] == nil {
			folders[top] = &folder{packages: map[string]bool{}}
		}
		return folders[top].add(path)
	})
	return folders, err
}

// folder is what was counted in one.
type folder struct {
	packages     map[string]bool
	files        []int // lines of each
	functions    []int // lines of each
	nesting      []int // of each function
	exported     int   // names
	undocumented int   // of them
	interfaces   int
	comments     int // lines
	code         int // lines that are neither empty nor comments
	tests        int // lines of tests
}

func (f *folder) add(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Count(string(text), "\n")
	if strings.HasSuffix(path, "_test.go") {
		f.tests += lines
		return nil
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) {
		return nil
	}
	f.packages[filepath.Dir(path)] = true
	f.files = append(f.files, lines)
	f.lines(string(text), set, file)
	for _, declaration := range file.Decls {
		f.declaration(set, declaration)
	}
	return nil
}

// lines tells comments from code. A line that has both is code.
func (f *folder) lines(text string, set *token.FileSet, file *ast.File) {
	commented := map[int]bool{}
	for _, group := range file.Comments {
		for line := set.Position(group.Pos()).Line; line <= set.Position(group.End()).Line; line++ {
			commented[line] = true
		}
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "":
		case commented[number] && (strings.HasPrefix(trimmed, "//") || strings.HasPrefix(trimmed, "/*") || strings.HasPrefix(trimmed, "*")):
			f.comments++
		default:
			f.code++
		}
	}
}

func (f *folder) declaration(set *token.FileSet, declaration ast.Decl) {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		f.name(d.Name, d.Doc)
		if d.Body != nil {
			f.functions = append(f.functions, set.Position(d.End()).Line-set.Position(d.Pos()).Line+1)
			f.nesting = append(f.nesting, depth(d.Body)-1)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			f.spec(d, spec)
		}
	}
}

func (f *folder) spec(d *ast.GenDecl, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		f.name(s.Name, d.Doc, s.Doc, s.Comment)
		if _, is := s.Type.(*ast.InterfaceType); is {
			f.interfaces++
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			f.name(name, d.Doc, s.Doc, s.Comment)
		}
	}
}

// name counts an exported name, and whether any comment is about it.
func (f *folder) name(name *ast.Ident, comments ...*ast.CommentGroup) {
	if !name.IsExported() {
		return
	}
	f.exported++
	if !slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return c != nil }) {
		f.undocumented++
	}
}

// depth is how many blocks are inside each other. The cases of a switch are one block with it.
func depth(node ast.Node) int {
	deepest := 0
	ast.Inspect(node, func(n ast.Node) bool {
		if n == nil || n == node {
			return true
		}
		switch n.(type) {
		case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
			deepest = max(deepest, depth(n))
			return false
		}
		return true
	})
	if block, is := node.(*ast.BlockStmt); is && onlyCases(block) {
		return deepest
	}
	return deepest + 1
}

func onlyCases(block *ast.BlockStmt) bool {
	if len(block.List) == 0 {
		return false
	}
	switch block.List[0].(type) {
	case *ast.CaseClause, *ast.CommClause:
		return true
	}
	return false
}

func print(folders map[string]*folder) error {
	names := make([]string, 0, len(folders))
	all := &folder{packages: map[string]bool{}}
	for name, f := range folders {
		names = append(names, name)
		all.merge(f)
	}
	slices.Sort(names)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "folder\tpackages\tfiles\tlines\tmedian\tp90\tmax\tfunctions\tmedian\tp90\tmax\tnesting p90\tmax\tcomments\texported\twithout words\tinterfaces\ttests\t")
	for _, name := range names {
		folders[name].row(out, name)
	}
	all.row(out, "all")
	return out.Flush()
}

func (f *folder) merge(other *folder) {
	for p := range other.packages {
		f.packages[p] = true
	}
	f.files = append(f.files, other.files...)
	f.functions = append(f.functions, other.functions...)
	f.nesting = append(f.nesting, other.nesting...)
	f.exported, f.undocumented, f.interfaces = f.exported+other.exported, f.undocumented+other.undocumented, f.interfaces+other.interfaces
	f.comments, f.code, f.tests = f.comments+other.comments, f.code+other.code, f.tests+other.tests
}

func (f *folder) row(out *tabwriter.Writer, name string) {
	lines := 0
	for _, l := range f.files {
		lines += l
	}
	fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t\n", name, len(f.packages), len(f.files), lines,
		at(f.files, 50), at(f.files, 90), at(f.files, 100), len(f.functions), at(f.functions, 50), at(f.functions, 90), at(f.functions, 100),
		at(f.nesting, 90), at(f.nesting, 100), share(f.comments, f.comments+f.code), f.exported, f.undocumented, f.interfaces, f.tests)
}

// at is a percentile: the smallest value that so many percent do not exceed.
func at(values []int, percent int) int {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

func share(part, whole int) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}
