/// `telpher topo`: the machine as a matrix, as a drawing, as XML and as JSON.
@NullMarked
package io.telpher.cli.topo;

import org.jspecify.annotations.NullMarked;
