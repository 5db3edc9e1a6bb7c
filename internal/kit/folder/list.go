package folder

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// List finds the files under a path that have one of these extensions, such as ".yaml". Names that
// begin with a dot are left out.
func List(path string, extensions ...string) ([]string, error) {
	var out []string
	err := walk(path, func(p string, folder bool) error {
		if !folder && slices.Contains(extensions, strings.ToLower(filepath.Ext(p))) {
			out = append(out, p)
		}
		return nil
	})
	return out, err
}

// walk visits what is under a path and does not begin with a dot. It follows links, because people
// swap whole folders by a link.
func walk(path string, visit func(path string, folder bool) error) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	if err := visit(path, true); err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		p := filepath.Join(path, e.Name())
		about, err := os.Stat(p)
		switch {
		case os.IsNotExist(err): // gone meanwhile, or a dangling link
			continue
		case err != nil:
			return err
		case about.IsDir() && e.Type()&fs.ModeSymlink != 0 && within(p, path):
			return fmt.Errorf("%s is a link to a folder that it lies in", p)
		case about.IsDir():
			err = walk(p, visit)
		default:
			err = visit(p, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// within reports whether a link leads to a folder above it.
func within(link, folder string) bool {
	to, err1 := filepath.EvalSymlinks(link)
	from, err2 := filepath.EvalSymlinks(folder)
	return err1 == nil && err2 == nil && strings.HasPrefix(from+string(filepath.Separator), to+string(filepath.Separator))
}
