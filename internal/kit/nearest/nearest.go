// Package nearest finds what somebody meant who mistyped a word.
package nearest

import "strings"

// Hint says which of the known words is near, or else lists them all after the prefix:
//
//	did you mean "weight"?
//	known fields: a, b, c
func Hint(word string, known []string, prefix string) string {
	if near := Word(word, known); near != "" {
		return `did you mean "` + near + `"?`
	}
	return prefix + strings.Join(known, ", ")
}

// Word returns the known word with the smallest edit distance (Levenshtein) from word, letter case
// aside; the first of equals; "" if none is near. Near is one edit in a word shorter than five
// characters, else the larger of two edits and a third of the word's length, rounded down.
func Word(word string, known []string) string {
	wanted := []rune(strings.ToLower(word))
	best, bestDistance := "", bound(len(wanted))+1
	for _, k := range known {
		if d := distance(wanted, []rune(strings.ToLower(k))); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

func bound(length int) int {
	if length < 5 {
		return 1
	}
	return max(2, length/3)
}

func distance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
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
