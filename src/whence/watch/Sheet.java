/* What has been written of one plan, and how much may be. */
package whence;

import org.apache.spark.sql.execution.QueryExecution;

abstract class Sheet extends Reading {
    final QueryExecution qe;
    final int maxChars;
    final int maxLevels;
    final long deadline;
    /* What was committed to tables while this ran; null for a plan that has not run. */
    final Commits commits;
    StringBuilder out = new StringBuilder();
    boolean coarse = false;
    int nodes = 0;
    int depth = 0;

    Sheet(QueryExecution qe, int maxChars, long maxNanos, int maxLevels, Commits commits) {
        this.qe = qe;
        this.commits = commits;
        this.maxLevels = maxLevels;
        this.maxChars = maxChars;
        this.deadline = System.nanoTime() + maxNanos;
    }

    void check() {
        if (!coarse && (out.length() > maxChars || ((++nodes & 255) == 0 && System.nanoTime() > deadline))) {
            throw new TooLarge();
        }
        if (coarse && out.length() > 2 * maxChars + 1000000) {
            throw new TooLarge();
        }
    }

    /* Python cannot read JSON of too many levels; a node or expression is two. */
    void deeper() {
        check();
        if (++depth > maxLevels) {
            throw new TooLarge();
        }
    }
}

class TooLarge extends RuntimeException {
    TooLarge() {
        super("too large", null, false, false);
    }
}
