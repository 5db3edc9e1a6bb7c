package query_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// found is what a package has in its .sql files, and what its code uses of it.
type found struct {
	queries, fragments map[string]string // with the line that follows the heading
	used, inserted     map[string]bool
}

// Read finds the names that are wrong as a program starts. This finds queries that nobody asks any
// more.
func TestEveryQueryOfTheStoreIsAskedAndSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	packages, inserted := 0, map[string]bool{}
	var all []found
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() != "queries" {
			return err
		}
		f := look(t, filepath.Dir(path))
		for name, comment := range f.queries {
			require.True(t, strings.HasPrefix(comment, "-- "), "%s: say in a comment what the query %s is for", path, name)
			require.True(t, f.used[name], "%s: nobody asks the query %s", path, name)
		}
		for name := range f.inserted {
			inserted[name] = true
		}
		packages, all = packages+1, append(all, f)
		return nil
	}))
	for _, f := range all {
		for name := range f.fragments {
			require.True(t, inserted[name], "no query has the fragment %s in it", name)
		}
	}
	require.NotZero(t, packages, "the queries are not found any more")
}

var (
	headings  = regexp.MustCompile(`(?m)^-- (name|fragment): (\w+)\n(.*)$`)
	askedFor  = regexp.MustCompile(`\bsql\.(\w+)`)
	insertion = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

func look(t *testing.T, folder string) found {
	t.Helper()
	f := found{map[string]string{}, map[string]string{}, map[string]bool{}, map[string]bool{}}
	for _, file := range glob(t, folder+"/queries/*.sql") {
		for _, h := range headings.FindAllStringSubmatch(file, -1) {
			map[string]map[string]string{"name": f.queries, "fragment": f.fragments}[h[1]][h[2]] = h[3]
		}
		for _, i := range insertion.FindAllStringSubmatch(file, -1) {
			f.inserted[i[1]] = true
		}
	}
	for _, file := range glob(t, folder+"/*.go") {
		for _, use := range askedFor.FindAllStringSubmatch(file, -1) {
			f.used[use[1]] = true
		}
	}
	return f
}

// glob reads files other than tests.
func glob(t *testing.T, pattern string) (texts []string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	for _, path := range slices.DeleteFunc(paths, func(p string) bool { return strings.HasSuffix(p, "_test.go") }) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	return texts
}
