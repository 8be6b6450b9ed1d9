package core

// nearest returns the word that name was probably meant to be: one that differs from it by one
// letter that is missing, added, wrong or swapped with its neighbour, or by two if the name is
// long. It is "" if there is none.
func nearest(name string, words []string) (best string) {
	if len(name) > 16 {
		return ""
	}
	least := min(len(name)/3, 2) + 1
	for _, word := range words {
		if d := distance(name, word); d < least {
			best, least = word, d
		}
	}
	return best
}

// distance returns the optimal string alignment distance of two short words.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			wrong := 1
			if a[i-1] == b[j-1] {
				wrong = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
