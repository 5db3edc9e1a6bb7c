package kinds

import (
	"strings"
)

// suggest is the hint beside a word that is not one of known: the nearest of them if one is near, else all of them
// after prefix.
func suggest(word string, known []string, prefix string) string {
	if near := nearest(word, known); near != "" {
		return `did you mean "` + near + `"?`
	}
	return prefix + strings.Join(known, ", ")
}

// nearest returns the known word with the smallest edit distance from word, letter case aside, the first one of equals;
// "" if none is near. Near means at most two edits, and less than half of the word changed.
func nearest(word string, known []string) string {
	best, bestDistance := "", 3
	lower := strings.ToLower(word)
	for _, k := range known {
		d := distance(lower, strings.ToLower(k))
		if d < bestDistance && 2*d < len(lower) {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance of two strings, counted in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
