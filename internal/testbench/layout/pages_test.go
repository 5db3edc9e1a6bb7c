package layout

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Links between pages lead to pages, and to headings, that exist.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	t.Parallel()
	links := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "identity/*.md", "discovery/translate/*.md"} {
		pages, err := filepath.Glob("../../../" + pattern)
		require.NoError(t, err)
		for _, page := range pages {
			for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(read(t, page), -1) {
				if strings.Contains(link[1], "://") {
					continue
				}
				links++
				file, heading, _ := strings.Cut(link[1], "#")
				to := page
				if file != "" {
					to = filepath.Join(filepath.Dir(page), file)
				}
				_, err := os.Stat(to)
				require.NoError(t, err, "%s links to %s", page, link[1])
				if heading != "" {
					require.Contains(t, headings(read(t, to)), heading, "%s links to %s: the page has no such heading", page, link[1])
				}
			}
		}
	}
	require.Greater(t, links, 200, "the links are not found any more")
}

// headings are those of a page, as links write them.
func headings(text string) (out []string) {
	for _, line := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		plain := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(line[1]), "")
		out = append(out, strings.ReplaceAll(plain, " ", "-"))
	}
	return out
}

var update = flag.Bool("update", false, "draw the pictures of pages anew")

var picture = regexp.MustCompile("(?s)(```mermaid\ngraph TD\n)(.*?)(```)")

// A picture in one of these pages has an arrow between two packages, or folders, exactly if one
// imports the other.
func TestPicturesAreOfTheImports(t *testing.T) {
	t.Parallel()
	imports := list(t, "Imports")
	pictures := 0
	for _, page := range []string{"../../../docs/architecture.md", "../../../identity/README.md", "../../../discovery/translate/README.md"} {
		text := read(t, page)
		drawn := picture.ReplaceAllStringFunc(text, func(whole string) string {
			pictures++
			parts := picture.FindStringSubmatch(whole)
			return parts[1] + draw(parts[2], imports) + parts[3]
		})
		if *update {
			require.NoError(t, os.WriteFile(page, []byte(drawn), 0o600))
			continue
		}
		require.Equal(t, drawn, text, "the imports are others than in %s: run go test ./internal/testbench/layout -run TestPictures -update", page)
	}
	require.Equal(t, 5, pictures, "the pictures are not found any more")
}

// draw draws the arrows between everything that a picture shows.
func draw(arrows string, imports map[string][]string) string {
	shown, drawn := map[string]bool{}, map[string]bool{}
	for _, arrow := range regexp.MustCompile(`(\S+) --> (\S+)`).FindAllStringSubmatch(arrows, -1) {
		shown[arrow[1]], shown[arrow[2]] = true, true
	}
	for from, all := range imports {
		for _, to := range all {
			if a, b := nodeOf(from, shown), nodeOf(to, shown); a != "" && b != "" && a != b {
				drawn["    "+a+" --> "+b+"\n"] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(drawn)), "")
}

// The map in CONTRIBUTING.md has a row for each package, and no others.
func TestEveryPackageIsOnTheMap(t *testing.T) {
	t.Parallel()
	mapped := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^[|] `([^` ]+)` [|] .*[|] .*[|]$").FindAllStringSubmatch(read(t, "../../../CONTRIBUTING.md"), -1) {
		mapped[row[1]] = true
	}
	for folder := range list(t, "Imports") {
		require.True(t, mapped[folder], "%s is not on the map of CONTRIBUTING.md: add what it is, and where to look first", folder)
		delete(mapped, folder)
	}
	require.Empty(t, mapped, "the map of CONTRIBUTING.md has packages that are gone")
}

// nodeOf is the package or folder of a picture that stands for a package.
func nodeOf(folder string, shown map[string]bool) string {
	for ; folder != "."; folder = filepath.Dir(folder) {
		if shown[folder] {
			return folder
		}
	}
	return ""
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// A page that names a test makes a promise by it, so the test must exist under that name.
func TestTestsThatPagesNameExist(t *testing.T) {
	t.Parallel()
	declared := declaredTests(t)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "identity/*.md", "discovery/translate/*.md"} {
		pages, err := filepath.Glob("../../../" + pattern)
		require.NoError(t, err)
		for _, page := range pages {
			for _, name := range regexp.MustCompile("`(Test[A-Z]\\w+)`").FindAllStringSubmatch(read(t, page), -1) {
				if !declared[name[1]] {
					t.Errorf("%s names %s, which no package has: the test was renamed or removed", page, name[1])
				}
			}
		}
	}
}

func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	declared := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	require.NoError(t, filepath.WalkDir("../../..", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			for _, name := range function.FindAllStringSubmatch(read(t, path), -1) {
				declared[name[1]] = true
			}
		}
		return err
	}))
	return declared
}
