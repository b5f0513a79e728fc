import uPlot from 'uplot';

/** A file of its own: only some views have charts, and they need as many bytes as the rest of the page. */
export { uPlot };
