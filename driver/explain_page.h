/* explain_page.h: the page that --explain=html fills, as EmbedPage.cmake cuts it: what stands before its data and
 * behind them. */
#ifndef MPC_DRIVER_EXPLAIN_PAGE_H
#define MPC_DRIVER_EXPLAIN_PAGE_H

#include <stddef.h>

extern const unsigned char explain_page_head[], explain_page_tail[];
extern const size_t explain_page_head_size, explain_page_tail_size;

#endif
